"""The data of the benchmarks, and one step of stage 2 as training makes it."""

import numpy as np

from sklntp._dataset import build_dataset
from sklntp._model import zero_model
from sklntp._ngd import StepSizes, normalized_gradient_descent
from sklntp._stages import AttentionStage
from sklntp._training import Plan, Training


def realizable_sentences(n_tokens, n_sentences, *, max_length=16, random_state=0):
    """Realizable X and y, drawn as arrays: seconds for a million sentences.

    The next token of x is x + 1. Under query q the tokens x with x - q = 1 mod 3 are optimal and
    all others are not; every token has a one-token sentence, and every other sentence one optimal
    token, one to `max_length` - 2 others at random, and its query. `n_tokens` must be a multiple
    of 3, so that as many tokens are optimal under each query.
    """
    if n_tokens % 3 or n_sentences < n_tokens:
        raise ValueError(
            "n_tokens must be a multiple of 3 and at most n_sentences; "
            f"got n_tokens={n_tokens}, n_sentences={n_sentences}."
        )
    rng = np.random.default_rng(random_state)
    n = n_sentences - n_tokens
    query = rng.integers(n_tokens, size=n)
    best = rng.integers(n_tokens // 3, size=n) * 3 + (query + 1) % 3
    group, which = np.divmod(rng.integers(2 * n_tokens // 3, size=(n, max_length - 2)), 2)
    others = 3 * group + (query[:, None] + 2 * which) % 3
    table = np.hstack([others, best[:, None], query[:, None]])
    lengths = rng.integers(3, max_length + 1, size=n)
    X = [[x] for x in range(n_tokens)]
    X += [row[-length:] for row, length in zip(table.tolist(), lengths.tolist(), strict=True)]
    y = (np.concatenate([np.arange(n_tokens), best]) + 1) % n_tokens
    return X, y


class SecondStage:
    """Stage 2 after 100 steps of stage 1 and a few of its own, where no score is zero any more.

    Parameters
    ----------
    X, y
        As in `NTPTransformerClassifier.fit`.
    n_steps : int, default=20
        Steps of stage 2 before any measuring.
    """

    def __init__(self, X, y, *, n_steps=20):
        self.data = build_dataset(X, y)
        self.model = Training(
            self.data, zero_model(self.data), Plan(("ov",), [StepSizes(0.2, stop=100)])
        ).run()
        stage = AttentionStage(self.data, self.model)
        self.pairs, self.loss = stage.pairs, stage.loss
        descent = normalized_gradient_descent(
            self.loss, stage.vector(self.model), steps=StepSizes(0.2, stop=n_steps)
        )
        self.theta = descent.theta

    @property
    def n_nonzeros(self):
        """Distinct tokens of all contexts that attend, the unit of a step's cost."""
        return sum(len(block.entries.index) for block in self.loss.blocks)

    def pair_index(self):
        """The entry of W_kq that each nonzero reads, block by block."""
        n_pairs = len(self.theta)
        parts = []
        for block in self.loss.blocks:
            entries = block.entries
            pairs = np.append(np.arange(n_pairs)[entries.where], n_pairs)
            parts.append(np.append(pairs, pairs[entries.repeated])[entries.index])
        return np.concatenate(parts)

    def threaded_loss(self, threads):
        """The loss on some `Threads`."""
        return AttentionStage(self.data, self.model, threads=threads).loss

    def run(self, loss=None, n_steps=3):
        """`n_steps` steps from `theta`; the caller divides their time by `evaluations`.

        The starting point is evaluated too, and copied in place of one more update.
        """
        loss = self.loss if loss is None else loss
        return normalized_gradient_descent(loss, self.theta, steps=StepSizes(0.2, stop=n_steps))

    @staticmethod
    def evaluations(n_steps=3):
        """How many steps' worth of work `run` does."""
        return n_steps + 1
