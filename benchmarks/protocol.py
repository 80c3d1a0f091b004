"""From a file of sequences to training and test pairs, the same for every model.

One sequence a line, tokens separated by blanks. Sequences of two or more tokens are shuffled and
taken until they hold 40,000 (context, next token) pairs, then split 80/20 by whole sequence; a
context is the last 20 tokens. The vocabulary is the training tokens; where there are more than 500
of them, the 500 commonest of those seen at least 3 times. Other tokens of a context become one
`<unk>`, and pairs whose next token is another are dropped, in training and test. 10 % of the
training sequences are the validation part, on which settings are chosen.
"""

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import PredefinedSplit

from sklntp.preprocessing import make_contexts

N_PAIRS = 40_000
TEST, VALIDATION = 0.2, 0.1  # shares of the sequences, and of those left for training
MAX_LENGTH = 20
MAX_TYPES, MIN_COUNT = 500, 3
UNKNOWN = "<unk>"
# What our pipeline writes itself is spelt otherwise in tokens; no model reads the spelling.
_SPELLING = str.maketrans({"→": "⇒", "@": "＠", "<": "‹", ">": "›"})


@dataclass(frozen=True)
class Pairs:
    """Contexts, the tokens after them, and which sequence each pair is from."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray


@dataclass(frozen=True)
class Training(Pairs):
    """All that a model may see.

    `validation` says of each pair whether its sequence is in the validation part.
    """

    validation: np.ndarray

    @property
    def cv(self):
        """The one split of a search: fit on the rest, score on the validation part."""
        return PredefinedSplit(np.where(self.validation, 0, -1))


def read(path):
    """The sequences of a file; blank lines are skipped."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8: {error}.") from error
    sequences = [line.translate(_SPELLING).split() for line in lines if line.strip()]
    if not sequences:
        raise ValueError(f"{path} must have one sequence a line; got no token.")
    return sequences


def split(sequences, seed):
    """Training and test pairs of the protocol.

    Parameters
    ----------
    sequences : list of lists of str
    seed : int
        Of the one shuffle, which decides on everything.

    Returns
    -------
    training : Training
    test : Pairs
    """
    long_enough = [sequence for sequence in sequences if len(sequence) > 1]
    random.Random(seed).shuffle(long_enough)
    n_pairs = np.cumsum([len(sequence) - 1 for sequence in long_enough])
    taken = long_enough[: np.searchsorted(n_pairs, N_PAIRS) + 1]
    if len(taken) < 3:
        raise ValueError(
            "Training, validation and test need a sequence of two or more tokens each, separated "
            f"by blanks; {len(taken)} of {len(sequences)} sequences have as many, and 3 are needed."
        )
    n_test = max(1, round(TEST * len(taken)))
    n_training = len(taken) - n_test
    n_validation = max(1, round(VALIDATION * n_training))
    known = vocabulary(taken[:n_training])
    training = pairs(taken[:n_training], known)
    test = pairs(taken[n_training:], known)
    validation = training.groups >= n_training - n_validation
    fit = training.y[~validation]
    if not (len(set(fit)) > 1 and validation.any() and len(test.y)):
        raise ValueError(
            "A pair is needed in validation and test, and two different next tokens in the part "
            f"that models are fitted on; got {np.sum(validation)} and {len(test.y)} pairs and "
            f"{len(set(fit))} next tokens of a vocabulary of {len(known)}, from {len(taken)} "
            "sequences."
        )
    return Training(training.X, training.y, training.groups, validation), test


def vocabulary(sequences):
    """The tokens that stay themselves."""
    counts = Counter(token for sequence in sequences for token in sequence)
    if len(counts) <= MAX_TYPES:
        return set(counts)
    commonest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_TYPES]
    return {token for token, count in commonest if count >= MIN_COUNT}


def pairs(sequences, known):
    """The pairs of sequences whose next token is known."""
    X, y, groups = make_contexts(sequences, max_length=MAX_LENGTH)
    kept = np.array([token in known for token in y], dtype=bool)
    X = [[token if token in known else UNKNOWN for token in context] for context in X[kept]]
    return Pairs(np.fromiter(X, dtype=object, count=len(X)), y[kept], groups[kept])


def ranks(model, test, training):
    """How many classes come before the next token of each test pair; infinite for no class.

    By probability, and where it is equal by how often a class is a next token in training, so
    that a model with many equal probabilities is not ranked by the order of its columns.
    """
    classes, counts = np.unique(training.y, return_counts=True)
    frequency = dict(zip(classes.tolist(), counts, strict=True))
    columns = np.array([frequency.get(token, 0) for token in model.classes_.tolist()])
    columns = np.argsort(-columns, kind="stable")
    place = {token: i for i, token in enumerate(model.classes_[columns].tolist())}
    label = np.array([place.get(token, -1) for token in test.y.tolist()])
    proba = model.predict_proba(test.X)[:, columns]
    own = np.take_along_axis(proba, np.maximum(label, 0)[:, None], axis=1)
    earlier = np.arange(len(columns)) < label[:, None]
    before = np.sum((proba > own) | ((proba == own) & earlier), axis=1)
    return np.where(label >= 0, before, np.inf)
