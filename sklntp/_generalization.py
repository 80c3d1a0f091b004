"""What the theory says about sentences, seen or not, and whether a fitted model follows it."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklntp._coding import find_sorted
from sklntp._contexts import merge_contexts
from sklntp._dataset import encode
from sklntp._sequences import read_sequences, show
from sklntp._targets import read_labels
from sklntp._top_tokens import CONFUSED, RANK, ROLES, CertainOrder

# By the bits of the roles that occur; none stands for an unknown query.
_PATTERNS = np.array(
    [" + ".join(r for k, r in enumerate(ROLES) if mask >> k & 1) for mask in range(32)],
    dtype=object,
)
_PATTERNS[0] = "unknown query"
_REASONS = [
    "",
    "unknown query",
    "several top tokens with different next tokens",
    "top tokens that the order does not compare",
    "top token with several next tokens",
    "top token without next token",
    "unknown top token",
]


@dataclass(frozen=True, eq=False, repr=False)
class GeneralizationReport:
    """The answers of the theory and those of a model, sentence by sentence; ``print`` it.

    Attributes
    ----------
    roles : list of dict
        Per sentence: its tokens, in order of first appearance -> their role under its query,
        "optimal" (nothing above it, something below), "non-optimal" (the reverse), "confused"
        (both, as in a cycle), "non-comparable" (neither) or "unknown" (not in the vocabulary).
    pattern : ndarray of object of shape (n_sentences,)
        The roles that occur in the sentence, "optimal + non-optimal" for instance; or
        "unknown query".
    determined : ndarray of object of shape (n_sentences,)
        The next token that the theory determines, None where it determines none.
    reason : ndarray of object of shape (n_sentences,)
        Why not, naming tokens; empty where it does.
    predicted : ndarray of shape (n_sentences,)
        The next token that the model predicts.
    correct : ndarray of bool of shape (n_sentences,)
        Whether the model predicts the determined next token; False where there is none.
    y : ndarray of shape (n_sentences,) or None
        The true next tokens, if given.
    """

    roles: list
    pattern: np.ndarray
    determined: np.ndarray
    reason: np.ndarray
    predicted: np.ndarray
    correct: np.ndarray
    y: np.ndarray | None
    _kind: np.ndarray  # (n_sentences,) index in _REASONS

    @property
    def n_determined(self):
        """Number of sentences whose next token the theory determines."""
        return int(np.count_nonzero(self._kind == 0))

    @property
    def accuracy(self):
        """Share of the determined sentences that the model gets right, NaN if there is none."""
        return _share(self.correct, self._kind == 0)

    @property
    def summary(self):
        """One dict per role pattern, the most frequent first.

        "pattern", "sentences" and "determined" (counts), "accuracy" (as above, of this pattern),
        and, NaN without y, "determined_is_y" (share of the determined next tokens that are the
        true ones) and "predicted_is_y" (the model's accuracy on all sentences of the pattern).
        """
        return [self._row(name, self.pattern == name) for name in _by_count(self.pattern)]

    @property
    def undetermined(self):
        """One dict per pattern and reason: "pattern", "reason" (without tokens), "sentences"."""
        chosen = np.flatnonzero(self._kind)
        pairs = [(self.pattern[i], _REASONS[self._kind[i]]) for i in chosen]
        return [
            {"pattern": str(pattern), "reason": reason, "sentences": n}
            for (pattern, reason), n in _by_count(pairs).items()
        ]

    def _row(self, name, chosen):
        known = chosen & (self._kind == 0)
        row = {
            "pattern": str(name),
            "sentences": int(np.count_nonzero(chosen)),
            "determined": int(np.count_nonzero(known)),
            "accuracy": _share(self.correct, known),
            "determined_is_y": np.nan,
            "predicted_is_y": np.nan,
        }
        if self.y is not None:
            row["determined_is_y"] = _share(_equal(self.determined, self.y), known)
            row["predicted_is_y"] = _share(_equal(self.predicted, self.y), chosen)
        return row

    def __repr__(self):
        return (
            f"<GeneralizationReport: {self.n_determined} of {len(self.pattern)} sentences "
            f"determined, accuracy {_cell(self.accuracy)} on these>"
        )

    def __str__(self):
        columns = ["pattern", "sentences", "determined", "accuracy"]
        if self.y is not None:
            columns += ["determined_is_y", "predicted_is_y"]
        total = self._row("all", np.ones(len(self.pattern), dtype=bool))
        cells = [[_cell(row[name]) for name in columns] for row in [*self.summary, total]]
        cells.insert(0, [name.replace("_", " ") for name in columns])
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for first, *rest in cells:
            line = [first.ljust(widths[0])]
            line += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
            lines.append("  ".join(line))
        lines.append(f"undetermined: {len(self.pattern) - self.n_determined}")
        for row in self.undetermined:
            name = f"{row['pattern']}: {row['reason']}"
            lines.append(f"  {row['sentences']}  {name.removeprefix('unknown query: ')}")
        return "\n".join(lines)


def _share(hit, among):
    n = np.count_nonzero(among)
    return float(np.count_nonzero(hit & among) / n) if n else np.nan


def _equal(left, right):
    # One by one: numpy does not compare arrays of str with arrays of numbers.
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    return np.fromiter((a == b for a, b in pairs), dtype=bool, count=len(left))


def _by_count(items):
    """Item -> how often it occurs, the most frequent first, equal ones in alphabetical order."""
    return dict(sorted(Counter(items).items(), key=lambda pair: (-pair[1], pair[0])))


def _cell(value):
    if not isinstance(value, float):
        return str(value)
    if np.isnan(value):
        return "-"
    return f"{value if value == 1 else min(value, 0.9999):.4f}"  # 1.0000 means all of them


def generalization_report(clf, X, y=None):
    """What the training data determine about sentences, and whether the model answers so.

    Under the query of a sentence the limit of training pays all attention to its top tokens: a
    token is not one for certain if another of the sentence is above it in the order, or has a
    higher rank, optimal > non-comparable and unknown > non-optimal. (Confused tokens have no rank,
    and may take away that of the tokens they are compared with.) The next token is determined if
    the tokens that may be top have one next token between them in the collocation; one that has
    none, like an unknown token, may be among them beside one of the same rank that has.

    Parameters
    ----------
    clf : NTPTransformerClassifier
        A fitted one. The theory is about its stages "ov" and "kq"; only data of its last `fit`
        count.
    X : array-like of sequences
        Sentences, as for ``clf.predict``.
    y : array-like of shape (n_sentences,), default=None
        Their true next tokens, also ones that `clf` does not know.

    Returns
    -------
    report : GeneralizationReport
        Answers and reasons per sentence, and a summary by role pattern; ``print`` it.

    Raises
    ------
    TypeError
        If `clf` is no NTPTransformerClassifier, or `y` holds numbers where it knows str, or str
        where it knows numbers.
    sklearn.exceptions.NotFittedError
        If it is not fitted.

    Notes
    -----
    An answer that is not determined is no failure, whatever the model says. It may yet be the same
    in the limit: only the comparisons that hold for certain are used, W_kq* is not solved. A wrong
    answer to a determined sentence shows how far training is from its limit: with cyclic orders
    W_kq grows slowly, and how often a token occurs may still decide.

    References
    ----------
    Huang, Liang, Yang, NeurIPS 2024, arXiv:2409.17335.

    Examples
    --------
    >>> from sklntp import NTPTransformerClassifier
    >>> from sklntp.metrics import generalization_report
    >>> X = [["a"], ["b"], ["c"], ["d"], ["a", "b", "c"]]
    >>> clf = NTPTransformerClassifier().fit(X, ["b", "c", "d", "a", "b"])
    >>> X_new = [["a", "c"], ["a", "d", "c"], ["c", "a", "c"], ["b", "c"], ["a", "z"]]
    >>> report = generalization_report(clf, X_new)
    >>> report.determined
    array(['b', 'b', 'b', None, None], dtype=object)
    >>> report.roles[1]
    {'a': 'optimal', 'd': 'non-comparable', 'c': 'non-optimal'}
    >>> report.reason[3]
    "several top tokens with different next tokens: 'b', 'c'"
    >>> print(report)
    pattern                                 sentences  determined  accuracy
    optimal + non-optimal                           2           2    1.0000
    non-optimal                                     1           0         -
    optimal + non-comparable + non-optimal          1           1    1.0000
    unknown query                                   1           0         -
    all                                             5           3    1.0000
    undetermined: 2
      1  non-optimal: several top tokens with different next tokens
      1  unknown query
    """
    missing = [n for n in ("collocation_", "sparse_coef_kq_") if not hasattr(type(clf), n)]
    if missing:
        raise TypeError(
            "clf must be a fitted NTPTransformerClassifier (of a pipeline its last step, of a "
            f"search best_estimator_); got {type(clf).__name__}, which has no {missing[0]}."
        )
    check_is_fitted(clf)
    sequences = read_sequences(clf, X, reset=False)
    if y is not None:
        y = read_labels(y, len(sequences))
        kinds = ["str" if isinstance(v, str) else "numbers" for v in (*y[:1], clf.classes_[0])]
        if len(set(kinds)) > 1 and len(y):
            raise TypeError(
                f"y holds {kinds[0]}, but the next tokens that clf knows are {kinds[1]}."
            )
    codes = encode(sequences, clf.vocabulary_.tolist(), clf.handle_unknown)
    offsets, n_tokens = sequences.offsets, len(clf.vocabulary_)
    contexts = merge_contexts(codes, offsets, n_tokens)
    collocation = clf._pairs["token"], clf._pairs["class"], len(clf.classes_)
    role, kind, answer, named = _judge(contexts, CertainOrder(clf._orders), collocation)

    # From contexts to sentences, and from their tokens to positions.
    lengths = sequences.lengths
    key = np.repeat(np.arange(len(contexts)), contexts.lengths) * (n_tokens + 1) + contexts.tokens
    position = find_sorted(key, np.repeat(contexts.inverse, lengths) * (n_tokens + 1) + codes)[0]
    masks = np.bitwise_or.reduceat(1 << role, contexts.offsets[:-1])
    masks[contexts.query == n_tokens] = 0
    kind = kind[contexts.inverse]
    predicted = clf.classes_[clf._predict_codes(codes, offsets)]  # predict would read X again
    names = np.array([*clf.classes_.tolist(), None], dtype=object)
    determined = names[np.where(kind == 0, answer[contexts.inverse], -1)]

    tokens = [sequences.tokens[code] for code in sequences.codes]
    roles = [ROLES[code] for code in role[position]]
    spans = list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    named = named[position]
    reason = np.full(len(sequences), "", dtype=object)
    for i in np.flatnonzero(kind):
        a, b = spans[i]
        a = b - 1 if _REASONS[kind[i]] == "unknown query" else a  # others may be unknown as well
        tokens_named = dict.fromkeys(tokens[k] for k in range(a, b) if named[k])
        reason[i] = f"{_REASONS[kind[i]]}: {show(tokens_named)}"
    return GeneralizationReport(
        roles=[dict(zip(tokens[a:b], roles[a:b], strict=True)) for a, b in spans],
        pattern=_PATTERNS[masks[contexts.inverse]],
        determined=determined,
        reason=reason,
        predicted=predicted,
        correct=_equal(determined, predicted),
        y=y,
        _kind=kind,
    )


def _judge(contexts, order, collocation):
    """The verdict of the theory on each context.

    Parameters
    ----------
    contexts : Contexts
    order : CertainOrder
    collocation : tuple
        Token and class of each pair, and the number of classes.

    Returns
    -------
    role : ndarray of shape (n_nonzeros,)
        Index in ROLES of each token of each context.
    kind : ndarray of shape (n_contexts,)
        Index in _REASONS.
    answer : ndarray of shape (n_contexts,)
        The class determined, where `kind` is 0.
    named : ndarray of bool of shape (n_nonzeros,)
        The tokens that the reason names.
    """
    pair_token, pair_class, n_classes = collocation
    n_tokens, token, starts = contexts.n_tokens, contexts.tokens, contexts.offsets[:-1]
    n_next = np.bincount(pair_token, minlength=n_tokens + 1)[token]  # |N(x)|
    label = np.zeros(n_tokens + 1, dtype=np.intp)
    label[pair_token] = pair_class
    label, votes = label[token], n_next == 1
    role, top, alone = order.tops(contexts, votes)

    def lowest(values, among):
        return np.minimum.reduceat(np.where(among, values, n_classes), starts)

    def highest(values, among):
        return np.maximum.reduceat(np.where(among, values, -2), starts)

    def some(flags):
        return np.logical_or.reduceat(flags, starts)

    unknown, several = token == n_tokens, top & (n_next > 1)
    answer = highest(label, top & votes)
    differ = answer > lowest(label, top & votes)
    rank = RANK[role]
    one_rank = ~some(top & (role == CONFUSED)) & (highest(rank, top) == lowest(rank, top))
    # What a reason needs, in the order of _REASONS: the contexts, and the tokens it names.
    reasons = [
        (contexts.query == n_tokens, unknown),
        (differ & one_rank, top & (n_next > 0)),
        (differ, top & (n_next > 0)),
        (some(several), several),
        (some(alone & ~unknown), alone & ~unknown),
        (some(alone), alone),
    ]
    conditions, names = zip(*reasons, strict=True)
    kind = np.select(conditions, np.arange(1, len(_REASONS)), 0)
    named = np.choose(np.repeat(kind, contexts.lengths), [np.zeros_like(top), *names])
    return role, kind, answer, named
