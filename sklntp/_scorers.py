"""Scorers of next-token models: functions of (estimator, X, y) for every search.

They read ``estimator.classes_``, and so know next tokens that a training fold lacks: these have
probability zero. Sentences are scored in batches, so probabilities of all sentences and classes
are never held at once.
"""

from numbers import Integral

import numpy as np
from sklearn.utils import _safe_indexing, gen_batches
from sklearn.utils.validation import _num_samples, check_is_fitted

from sklntp._targets import label_codes, read_labels, read_weights

_BATCH = 1 << 21  # log-probabilities that are held at a time
_FLOOR = np.log(np.finfo(np.float64).eps)  # about -36.04


def neg_log_loss(estimator, X, y, sample_weight=None):
    """Minus the log-loss: the mean log-probability of the next tokens. Greater is better.

    It takes next tokens that the estimator has not seen, which it meets as soon as a training fold
    lacks a rare one. ``scoring="neg_log_loss"`` fails there, or takes the probability of one token
    for that of another where the test fold happens to have as many distinct tokens.

    Parameters
    ----------
    estimator : object
        A fitted classifier with `classes_` and `predict_log_proba` or else `predict_proba`: also a
        :class:`sklearn.pipeline.Pipeline`, a search, or any other that delegates to one.

    X : array-like of length n_sentences
        What `estimator` predicts for.

    y : array-like of shape (n_sentences,)
        The next tokens, of the type of ``estimator.classes_``: all str, or all numbers.

    sample_weight : array-like of shape (n_sentences,), default=None
        Weight of each sentence; None weights all alike.

    Returns
    -------
    score : float
        sum_i w_i log max(p_i, eps) / sum_i w_i, p_i the probability of ``y[i]``, zero where it is
        not in ``estimator.classes_``; eps = ``np.finfo(np.float64).eps``, about 2.2e-16. No
        sentence counts for less than log(eps), about -36.04.

    Raises
    ------
    TypeError
        If `estimator` has no `classes_` or predicts no probabilities, or if `y` is of another type
        than ``estimator.classes_``.
    ValueError
        If lengths differ, there is no sentence, a next token is missing, or a probability is NaN.

    Notes
    -----
    A search that is fitted with sample weights passes them to a scorer that is a function only in
    recent scikit-learn versions, for one metric, and without metadata routing. Under routing, every
    search scores without weights.

    See Also
    --------
    sklearn.metrics.log_loss : The same number with the opposite sign where every next token is in
        ``estimator.classes_`` and probabilities are float64.

    Examples
    --------
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from sklntp import NTPTransformerClassifier
    >>> from sklntp.metrics import neg_log_loss
    >>> X = [["a"], ["b"], ["c"], ["a", "b"], ["b", "c"]]
    >>> y = ["b", "c", "a", "c", "a"]
    >>> clf = NTPTransformerClassifier(max_iter=50).fit(X, y)
    >>> round(neg_log_loss(clf, X, y), 4)
    -0.0017
    >>> round(neg_log_loss(clf, [["a"]], ["never seen"]), 2)
    -36.04
    >>> cross_val_score(clf, X, y, scoring=neg_log_loss, cv=KFold(2)).round(2)
    array([-12.01,  -0.71])
    """
    weight = _weights(X, sample_weight)
    log_p = np.full(len(weight), -np.inf)
    for rows, scores, label in _batches(estimator, X, y):
        own = np.take_along_axis(scores, np.maximum(label, 0)[:, None], axis=1)[:, 0]
        log_p[rows] = np.where(label >= 0, own, -np.inf)
    return float(np.average(np.maximum(log_p, _FLOOR), weights=weight))


def perplexity(estimator, X, y, sample_weight=None):
    """Minus the perplexity, so that greater is better: -exp(log-loss).

    **The sign is that of a scorer**: searches maximize their score, so this is negative, as what
    ``make_scorer(..., greater_is_better=False)`` gives. The perplexity itself is its absolute
    value: 1 for a perfect model, C for one that guesses among C next tokens.

    Parameters
    ----------
    estimator : object
        A fitted classifier, as for :func:`neg_log_loss`.

    X : array-like of length n_sentences
        What `estimator` predicts for.

    y : array-like of shape (n_sentences,)
        The next tokens, of the type of ``estimator.classes_``.

    sample_weight : array-like of shape (n_sentences,), default=None
        Weight of each sentence; None weights all alike.

    Returns
    -------
    score : float
        ``-exp(-neg_log_loss(estimator, X, y, sample_weight))``, from -1 / eps to -1: the floor of
        :func:`neg_log_loss` keeps it at -4.5e15 or above.

    Examples
    --------
    >>> from sklntp import NTPTransformerClassifier
    >>> from sklntp.metrics import perplexity
    >>> X, y = [["a"], ["b"], ["a", "b"]], ["b", "a", "b"]
    >>> clf = NTPTransformerClassifier(max_iter=1).fit(X, y)
    >>> round(perplexity(clf, X, y), 2)
    -1.87
    """
    return float(-np.exp(-neg_log_loss(estimator, X, y, sample_weight)))


def top_k_accuracy(estimator, X, y, sample_weight=None, *, k=5):
    """Share of sentences whose next token is among the `k` most probable ones.

    Parameters
    ----------
    estimator : object
        A fitted classifier, as for :func:`neg_log_loss`.

    X : array-like of length n_sentences
        What `estimator` predicts for.

    y : array-like of shape (n_sentences,)
        The next tokens, of the type of ``estimator.classes_``. One that is not in it is a miss.

    sample_weight : array-like of shape (n_sentences,), default=None
        Weight of each sentence; None weights all alike.

    k : int, default=5
        How many next tokens may be proposed. With `k` at least the number of classes every next
        token in ``estimator.classes_`` is a hit. ``functools.partial(top_k_accuracy, k=3)`` is a
        scorer with another `k`.

    Returns
    -------
    score : float
        Between 0 and 1. Of equally probable tokens those earlier in ``estimator.classes_`` come
        first, so exactly `k` tokens are proposed; with ``k=1`` these are the predictions of a
        classifier that takes the first largest probability.

    See Also
    --------
    sklearn.metrics.top_k_accuracy_score : Breaks ties the other way round.

    Examples
    --------
    >>> from functools import partial
    >>> from sklearn.model_selection import cross_validate
    >>> from sklntp import NTPTransformerClassifier
    >>> from sklntp.metrics import neg_log_loss, top_k_accuracy
    >>> X, y = [["a"], ["b"], ["c"], ["a", "b"]] * 2, ["b", "c", "a", "c"] * 2
    >>> clf = NTPTransformerClassifier(max_iter=50).fit(X, y)
    >>> top_k_accuracy(clf, X, ["a"] * 8, k=2)
    0.75
    >>> scoring = {"log_loss": neg_log_loss, "top_2": partial(top_k_accuracy, k=2)}
    >>> cross_validate(clf, X, y, scoring=scoring, cv=2)["test_top_2"]
    array([1., 1.])
    """
    if not isinstance(k, Integral) or isinstance(k, bool):
        raise TypeError(f"k must be an integer; got {k!r} of type {type(k).__name__}.")
    if k < 1:
        raise ValueError(f"k must be at least 1; got {k}.")
    weight = _weights(X, sample_weight)
    hit = np.zeros(len(weight), dtype=bool)
    for rows, scores, label in _batches(estimator, X, y):
        own = np.take_along_axis(scores, np.maximum(label, 0)[:, None], axis=1)
        before = np.count_nonzero(scores > own, axis=1)
        earlier = np.arange(scores.shape[1]) < label[:, None]
        before += np.count_nonzero((scores == own) & earlier, axis=1)
        hit[rows] = (label >= 0) & (before < k)
    return float(np.average(hit, weights=weight))


def _weights(X, sample_weight):
    n_sentences = _num_samples(X)
    if n_sentences == 0:
        raise ValueError("X must have at least one sentence to score; got 0.")
    return read_weights(sample_weight, n_sentences)


def _batches(estimator, X, y):
    """Yield (rows, log-probabilities, label codes), rows a slice; code -1: not in classes_."""
    classes = _classes(estimator)
    codes = label_codes(read_labels(y, _num_samples(X)), classes)
    codes = np.where(codes < len(classes), codes, -1)
    for rows in gen_batches(len(codes), max(1, _BATCH // len(classes))):
        scores = _log_proba(estimator, _safe_indexing(X, rows))
        if scores.shape != (rows.stop - rows.start, len(classes)):
            raise ValueError(
                f"{type(estimator).__name__} has {len(classes)} classes_, but its probabilities "
                f"of {rows.stop - rows.start} sentences have shape {scores.shape}."
            )
        missing = np.isnan(scores).any(axis=1)
        if missing.any():
            raise ValueError(
                f"{type(estimator).__name__} gives NaN as a probability for sentence "
                f"{rows.start + int(np.argmax(missing))}."
            )
        yield rows, scores, codes[rows]


def _classes(estimator):
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        check_is_fitted(estimator)
    if not isinstance(classes, np.ndarray):  # several outputs: a list of arrays
        raise TypeError(
            "A scorer of next tokens needs a classifier with an array classes_; "
            f"{type(estimator).__name__} has "
            + ("none." if classes is None else f"a {type(classes).__name__}.")
        )
    return classes


def _log_proba(estimator, X):
    """Log-probabilities as float64, from `predict_log_proba` where there is one."""
    if hasattr(estimator, "predict_log_proba"):
        with np.errstate(divide="ignore"):  # many classifiers take the logarithm of zeros
            return np.asarray(estimator.predict_log_proba(X), dtype=np.float64)
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            "A scorer of next tokens needs predict_log_proba or predict_proba; "
            f"{type(estimator).__name__} has neither."
        )
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(estimator.predict_proba(X), dtype=np.float64))
