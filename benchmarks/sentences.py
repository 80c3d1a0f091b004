"""Merged contexts as padded arrays, for peers that keep one row per sentence."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PaddedSentences:
    """n contexts as arrays of shape (n, L), the label's token first, in order of length.

    Every peer gets the merged contexts, with the log counts that merging needs; padding has the
    log count -inf, and with it no attention.
    """

    length: np.ndarray  # (n,) distinct tokens
    query: np.ndarray  # (n,)
    label: np.ndarray  # (n,) class of the next token
    weight: np.ndarray  # (n,) pi_n
    token: np.ndarray  # (n, L)
    log_count: np.ndarray  # (n, L)
    pair: np.ndarray  # (n, L) index of the token's parameter
    next_class: np.ndarray  # (n, L) the class a token votes for
    vote: np.ndarray  # (n, L) how much, over the other classes of its column
    output: np.ndarray  # (C, V) W_ov

    @property
    def n_classes(self):
        """C."""
        return len(self.output)

    def take(self, rows, cut=True):
        """Some of the rows, cut to the longest of them or as wide as all."""
        width = self.length[rows].max() if cut else self.token.shape[1]
        return PaddedSentences(
            *(getattr(self, name)[rows] for name in ("length", "query", "label", "weight")),
            *(
                np.ascontiguousarray(getattr(self, name)[rows, :width])
                for name in ("token", "log_count", "pair", "next_class", "vote")
            ),
            self.output,
        )

    def batches(self, size, cut=True):
        """In pieces of up to `size` rows."""
        n = len(self.length)
        return [self.take(slice(i, min(i + size, n)), cut) for i in range(0, n, size)]

    def equal_lengths(self):
        """In one piece per length, without any padding."""
        bounds = np.flatnonzero(np.diff(self.length, prepend=0, append=0))
        return [self.take(slice(a, b)) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def padded_sentences(stage):
    """The contexts of a `SecondStage`, of which each has one label and each token one class."""
    contexts, labels, output = stage.data.contexts, stage.data.labels, stage.model.output
    if len(labels.classes) != len(contexts) or len(output.classes) != contexts.n_tokens:
        raise ValueError("Every context must have one next token, and so must every token.")
    length = contexts.lengths
    real = np.arange(length.max()) < length[:, None]

    def padded(values, padding):
        array = np.full(real.shape, padding, dtype=values.dtype)
        array[real] = values
        return np.take_along_axis(array, order, axis=1)

    order = np.broadcast_to(np.arange(real.shape[1]), real.shape)
    next_class = padded(output.classes[contexts.tokens], output.n_classes)
    order = np.argsort(next_class != labels.classes[:, None], axis=1, kind="stable")
    query = np.repeat(contexts.query, length)
    excess = output.value - output.base
    return PaddedSentences(
        length=length,
        query=contexts.query,
        label=labels.classes,
        weight=labels.probability,
        token=padded(contexts.tokens, 0),
        log_count=padded(np.log(contexts.counts), -np.inf),
        # One-token contexts have no parameter; any index does, their gradient being zero.
        pair=padded(np.minimum(stage.pairs.find(query, contexts.tokens), len(stage.theta) - 1), 0),
        next_class=np.take_along_axis(next_class, order, axis=1),
        vote=padded(excess[contexts.tokens], 0.0),
        output=output.dense(),
    )
