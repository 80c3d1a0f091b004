"""Both matrices: where training starts, and what it gives back."""

from dataclasses import dataclass, field, replace

import numpy as np

from sklntp._forward import AttentionWeights, OutputWeights
from sklntp._ngrams import distance, is_ngram, order
from sklntp._smoothing import smoothed_output


@dataclass(frozen=True)
class Model:
    """Both matrices and how they came about."""

    output: OutputWeights
    attention: AttentionWeights
    history: dict = field(default_factory=dict)  # stage -> name -> list of floats
    stop_reason: dict = field(default_factory=dict)  # stage -> str
    n_iter: tuple = ()  # of the last call, one per stage


def zero_model(data):
    """Both matrices zero."""
    n_tokens = len(data.vocabulary)
    offsets, none = np.zeros(n_tokens + 1, dtype=np.intp), np.empty(0, dtype=np.intp)
    zero = np.zeros(n_tokens)
    output = OutputWeights(offsets, none, np.empty(0), zero, len(data.classes))
    return Model(output, AttentionWeights(np.empty(0, np.int64), np.empty(0), zero))


def starting_model(data, smoothing, attention_start):
    """What training starts from, and what the penalty pulls to.

    W_ov is the closed form of the smoothing, or zero. W_kq has a base value per token that does not
    depend on the query, `attention_start` times the number of last tokens that the token stands
    for: k for an n-gram of k tokens, 1 for x@0; and 1 for every token that is its own query.
    """
    model = zero_model(data)
    if smoothing is not None:
        model = replace(model, output=smoothed_output(data))
    if attention_start == 0.0:
        return model
    n_last = np.array([_last_tokens(token) for token in data.vocabulary])
    itself = np.arange(len(n_last), dtype=np.int64)
    attention = AttentionWeights(
        itself * len(n_last) + itself,
        attention_start * np.maximum(n_last, 1.0),
        attention_start * n_last.astype(float),
    )
    return replace(model, attention=attention)


def _last_tokens(token):
    """How many of the last tokens of a sentence a token stands for; 0: it may be anywhere."""
    return order(token) if is_ngram(token) else int(distance(token) == 0)
