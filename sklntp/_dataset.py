"""From X and y to everything training needs: the one way that data takes into the package."""

import math
from dataclasses import dataclass

import numpy as np

from sklntp._coding import code_ints, code_objects, lookup, recode
from sklntp._collocation import COLLOCATION_MODES, Collocation, build_collocation, resolve_mode
from sklntp._contexts import Contexts, Labels, merge_contexts, merge_labels
from sklntp._held_out import hold_out
from sklntp._orders import Orders, build_orders
from sklntp._rows import plain_token
from sklntp._sequences import read_sequences, short, show, token_array
from sklntp._targets import read_labels, read_weights

_MAX_TOKENS = 2_000_000  # a (query, above, below) triple still fits one int64


@dataclass(frozen=True)
class Dataset:
    """Training data after merging."""

    vocabulary: list  # the tokens, in order of their codes
    classes: np.ndarray  # (C,) sorted
    contexts: Contexts
    labels: Labels
    mode: str  # the collocation mode in use
    collocation: Collocation
    orders: Orders
    sentences: np.ndarray  # (n_kept,) index in X of the sentences of positive weight
    label_codes: np.ndarray  # (n_kept,) class code of the next token of each
    features: dict  # n_features_in_, feature_names_in_ where X has them
    held_out: tuple | None = None  # (Contexts, Labels) that are not trained on


def build_dataset(
    X,
    y,
    sample_weight=None,
    *,
    collocation="auto",
    vocabulary=None,
    handle_unknown="orthogonal",
    held_out=0.0,
    random_state=None,
    estimator=None,
):
    """Validate, encode and merge.

    Parameters
    ----------
    X, y, sample_weight
        As in `NTPTransformerClassifier.fit`.
    collocation : {"auto", "single", "last", "context"}, default="auto"
    vocabulary : sequence of distinct tokens, default=None
    handle_unknown : {"orthogonal", "error"}, default="orthogonal"
    held_out : float, default=0.0
        Share of the distinct contexts to hold out.
    random_state : None, int or RandomState
        Which ones.
    estimator : estimator, default=None
        Named in the messages about X; not changed.

    Returns
    -------
    Dataset
    """
    if not isinstance(collocation, str) or collocation not in COLLOCATION_MODES:
        raise ValueError(
            f"collocation must be one of {COLLOCATION_MODES}; got {short(collocation)}."
        )
    merged = merge_data(X, y, sample_weight, vocabulary, handle_unknown, estimator)
    contexts, labels, n_classes = merged["contexts"], merged["labels"], len(merged["classes"])
    mode = resolve_mode(collocation, contexts)
    if held_out:
        (contexts, labels), merged["held_out"] = hold_out(
            contexts, labels, mode, held_out, random_state
        )
        merged |= {"contexts": contexts, "labels": labels}
    pairs = build_collocation(mode, contexts, labels, n_classes)
    orders = build_orders(contexts, labels, pairs, n_classes)
    return Dataset(**merged, mode=mode, collocation=pairs, orders=orders)


def merge_data(
    X, y, sample_weight=None, vocabulary=None, handle_unknown="orthogonal", estimator=None
):
    """The part of `build_dataset` that meets single sentences: a dict of fields of `Dataset`."""
    sequences = read_sequences(estimator, X, reset=True)
    y = read_labels(y, len(sequences))
    weight = read_weights(sample_weight, len(sequences))
    kept = weight > 0
    if not kept.all():
        sequences, y, weight = sequences.select(kept), y[kept], weight[kept]

    tokens = sequences.tokens if vocabulary is None else check_vocabulary(vocabulary)
    codes = encode(sequences, tokens, handle_unknown)
    if codes.min() == len(tokens):
        raise ValueError(f"No token of X is in the vocabulary; X holds {show(sequences.tokens)}.")
    classes, label_codes = _encode_labels(y, tokens if vocabulary is not None else None)
    contexts = merge_contexts(codes, sequences.offsets, len(tokens))
    return {
        "vocabulary": tokens,
        "classes": classes,
        "contexts": contexts,
        "labels": merge_labels(contexts, label_codes, weight, len(classes)),
        "sentences": np.flatnonzero(kept),
        "label_codes": label_codes,
        "features": sequences.features,
    }


def check_vocabulary(vocabulary):
    """The parameter `vocabulary` as a list of distinct tokens of one kind."""
    if isinstance(vocabulary, (str, bytes, dict, set, frozenset)) or np.ndim(vocabulary) != 1:
        raise TypeError(
            "vocabulary must be a sequence of distinct tokens, in the order to keep; "
            f"got {type(vocabulary).__name__} {short(vocabulary)}."
        )
    tokens = list(map(plain_token, vocabulary))
    wrong = [t for t in tokens if isinstance(t, bool) or not isinstance(t, (str, int, float))]
    wrong += [t for t in tokens if isinstance(t, float) and not math.isfinite(t)]
    if not tokens or wrong or len({isinstance(t, str) for t in tokens}) > 1:
        raise ValueError(
            "vocabulary must hold at least one token, all str or all numbers; "
            f"got {show(wrong or tokens) or 'none'}."
        )
    if len(set(tokens)) < len(tokens):
        seen = set()
        twice = [t for t in tokens if t in seen or seen.add(t)]
        raise ValueError(f"vocabulary must hold distinct tokens; {show(twice)} occurs twice.")
    return tokens


def encode(sequences, vocabulary, handle_unknown):
    """Token codes of all positions: the index in `vocabulary`, or its length if unknown.

    Raises
    ------
    TypeError
        If the tokens are str where the vocabulary holds numbers, or the other way round.
    ValueError
        With ``handle_unknown="error"``, naming the unknown tokens.
    """
    n_tokens = len(vocabulary)
    if n_tokens > _MAX_TOKENS:
        raise ValueError(f"At most {_MAX_TOKENS} distinct tokens are supported; got {n_tokens}.")
    if sequences.tokens and isinstance(sequences.tokens[0], str) != isinstance(vocabulary[0], str):
        kinds = ("str", "numbers") if isinstance(sequences.tokens[0], str) else ("numbers", "str")
        raise TypeError(f"X holds tokens that are {kinds[0]}, but the vocabulary holds {kinds[1]}.")
    code = lookup(sequences.tokens, vocabulary)
    unknown = np.flatnonzero(code == n_tokens)
    if handle_unknown == "error" and len(unknown):
        raise ValueError(
            f"Unknown tokens, not in the vocabulary: {show(sequences.tokens[u] for u in unknown)}. "
            'With handle_unknown="orthogonal" they score 0 and vote for nothing.'
        )
    return sequences.codes if _counts_up(code) else recode(sequences.codes, code)


def _counts_up(code):
    return np.array_equal(code, np.arange(len(code)))


def _encode_labels(y, vocabulary):
    """Sorted classes and the code of each next token.

    The classes are the vocabulary where one is given and holds every next token (the paper's V),
    else the distinct next tokens.
    """
    if vocabulary is not None and set(y.tolist()) <= set(vocabulary):
        tokens = sorted(vocabulary)
        return token_array(tokens), lookup(y.tolist(), tokens).astype(np.intp)
    if y.dtype.kind in "iu":
        classes, codes = code_ints(y)
    elif y.dtype.kind == "U" or y.dtype.kind == "O" and set(map(type, y.tolist())) == {str}:
        classes, codes = code_objects(y.tolist(), len(y))
    else:
        return np.unique(y, return_inverse=True)
    return np.array(classes, dtype=y.dtype), codes.astype(np.intp)
