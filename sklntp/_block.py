"""What every block of contexts has.

A block holds n contexts of l distinct tokens as arrays of shape (l, n): every maximum, sum and
broadcast over the tokens of a context is then one dense operation along axis 0.
"""

import numpy as np


class Block:
    """What every block has: the weights of its contexts and where their scores are read from."""

    def __init__(self, contexts, labels, rows, pairs, at):
        tokens = contexts.tokens[at]  # (l, n)
        counts = contexts.counts[at]
        self.index = pairs.find(contexts.query[rows], tokens)  # (l, n)
        self.repeated = np.flatnonzero(counts > 1)  # most tokens occur once, at log count 0
        self.log_count = np.log(counts.ravel()[self.repeated])
        self.probability = labels.probability[rows]  # (n,) pi_n
        self.log_probability = np.log(self.probability)

    def scores(self, weights, out=None):
        """Scores plus log counts, (l, n)."""
        # All indices are valid; "wrap" spares take a second buffer.
        scores = weights.take(self.index, out=out, mode="wrap")
        scores.reshape(-1)[self.repeated] += self.log_count
        return scores


def positions(contexts, rows, length):
    """Where the tokens of contexts of one length stand in the flat arrays, (l, n)."""
    return contexts.offsets[rows] + np.arange(length)[:, None]
