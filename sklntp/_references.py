"""The max-margin references of a data set, by name and with their certificates."""

import time
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from sklntp._dataset import build_dataset
from sklntp._max_margin import solve_kq, solve_ov
from sklntp._ngd import weighted_norm
from sklntp._sequences import token_array


@dataclass(frozen=True, eq=False)
class MaxMarginOV:
    """The reference W_ov*: minimum norm with (e_n(x) - e_v)^T W x >= 1 for all v not in N(x).

    Attributes
    ----------
    coef : csr_array of shape (n_classes, n_tokens)
        W_ov* minus `base`.
    base : ndarray of shape (n_tokens,)
        The value of all classes without an entry, per column.
    norm : float
        ||W_ov*||_F.
    margin : float
        The smallest margin.
    gap : float
        Relative duality gap; 0, the solution is a closed form.
    n_components : int
        Independent problems: one per token with a pair.
    n_constraints : int
        Number of (x, n(x), v).
    active : list of tuple
        The constraints whose margin is 1, (x, n(x), v): all. Built on access.
    seconds : float
        Time the solution took, without reading X and y.
    classes, vocabulary : ndarray
        The names of rows and columns.
    """

    coef: csr_array
    base: np.ndarray
    norm: float
    margin: float
    gap: float
    n_components: int
    n_constraints: int
    seconds: float
    classes: np.ndarray
    vocabulary: np.ndarray

    @property
    def active(self):
        """All constraints, see the class."""
        columns, classes = self.coef.tocsc(), self.classes.tolist()
        found = []
        for x, token in enumerate(self.vocabulary.tolist()):
            inside = columns.indices[columns.indptr[x] : columns.indptr[x + 1]]
            outside = np.setdiff1d(np.arange(len(classes)), inside) if inside.size else []
            found += [(token, classes[y], classes[v]) for y in np.sort(inside) for v in outside]
        return found


@dataclass(frozen=True, eq=False)
class MaxMarginKQ:
    """The reference W_kq*: minimum norm with (x - x')^T W q >= 1 for all x >_q x' that meet.

    Tokens on a cycle of an order share one value.

    Attributes
    ----------
    coef : csr_array of shape (n_tokens, n_tokens)
        W_kq*[key token, query token].
    norm : float
        ||W_kq*||_F.
    margin : float
        The smallest margin outside cycles: 1 within rounding, inf without pairs.
    gap : float
        The largest relative duality gap of a component.
    n_components : int
        Independent problems: connected components of the orders of all queries.
    n_constraints : int
        Number of (query, above, below), those inside cycles included.
    active : list of tuple
        The constraints whose margin is 1, (query, above, below); those inside a cycle, where the
        margin is 0, are not among them. None stands for tokens outside the vocabulary. Built on
        access.
    seconds : float
        Time the solution took, without reading X and y.
    vocabulary : ndarray
        The names of rows and columns.
    """

    coef: csr_array
    norm: float
    margin: float
    gap: float
    n_components: int
    n_constraints: int
    seconds: float
    vocabulary: np.ndarray
    _active: np.ndarray = field(repr=False)  # (3, n_active) codes of query, above, below

    @property
    def active(self):
        """The tight constraints, see the class."""
        tokens = [*self.vocabulary.tolist(), None]
        return [tuple(tokens[code] for code in codes) for codes in self._active.T.tolist()]


def max_margin_ov(X, y, *, collocation="auto", vocabulary=None, sample_weight=None):
    """The max-margin reference of W_ov, in closed form.

    A token with k of C classes as next tokens has (C - k) / C at those and -k / C elsewhere.

    Parameters
    ----------
    X : array-like of sequences
        Sentences, see `NTPTransformerClassifier.fit`.
    y : array-like of shape (n_sentences,)
        Their next tokens.
    collocation : {"auto", "single", "last", "context"}, default="auto"
        Which samples say what follows a token, see `NTPTransformerClassifier`.
    vocabulary : sequence of distinct tokens, default=None
        Tokens to keep, the others are unknown; None: the sorted tokens of X.
    sample_weight : array-like of shape (n_sentences,), default=None
        Sentences of weight zero are left out.

    Returns
    -------
    reference : MaxMarginOV
        The matrix, minus a base value per column, with its certificate.

    Examples
    --------
    >>> from sklntp.structure import max_margin_ov
    >>> round(max_margin_ov([["a"], ["b"], ["c"]], ["b", "c", "a"]).norm ** 2, 12)
    2.0
    """
    data = build_dataset(X, y, sample_weight, collocation=collocation, vocabulary=vocabulary)
    token, label = data.collocation.pair_token, data.collocation.classes
    n_tokens, n_classes = len(data.vocabulary), len(data.classes)
    start = time.perf_counter()
    solution = solve_ov(token, label, n_classes)
    seconds = time.perf_counter() - start
    base = solution.base(n_tokens)
    excess = solution.label_value - base[token]
    # Without a class outside N(x) there is no constraint, hence no margin.
    k = np.diff(data.collocation.offsets)
    constrained = k < n_classes
    margin = float(np.min(excess[np.isin(token, solution.tokens[constrained])], initial=np.inf))
    return MaxMarginOV(
        coef=csr_array((excess, (label, token)), shape=(n_classes, n_tokens)),
        base=base,
        norm=solution.norm,
        margin=margin,
        gap=0.0,
        n_components=len(solution.tokens),
        n_constraints=int(np.sum(k * (n_classes - k))),
        seconds=seconds,
        classes=data.classes,
        vocabulary=token_array(data.vocabulary),
    )


def max_margin_kq(X, y, *, collocation="auto", vocabulary=None, sample_weight=None):
    """The max-margin reference of W_kq, with its certificate.

    Parameters
    ----------
    X : array-like of sequences
        Sentences, see `NTPTransformerClassifier.fit`.
    y : array-like of shape (n_sentences,)
        Their next tokens.
    collocation : {"auto", "single", "last", "context"}, default="auto"
        Which samples say what follows a token, see `NTPTransformerClassifier`.
    vocabulary : sequence of distinct tokens, default=None
        Tokens to keep, the others are unknown; None: the sorted tokens of X.
    sample_weight : array-like of shape (n_sentences,), default=None
        Sentences of weight zero are left out.

    Returns
    -------
    reference : MaxMarginKQ
        The matrix with its certificate.

    Raises
    ------
    ValueError
        If no solver reaches a solution that its certificate confirms.

    Examples
    --------
    >>> from sklntp.structure import max_margin_kq
    >>> X = [["a"], ["b"], ["c"], ["a", "b"]]
    >>> reference = max_margin_kq(X, ["b", "c", "a", "b"])
    >>> reference.coef.toarray()[:, 1]
    array([ 0.5, -0.5,  0. ])
    >>> reference.margin, reference.active
    (1.0, [('b', 'a', 'b')])
    """
    data = build_dataset(X, y, sample_weight, collocation=collocation, vocabulary=vocabulary)
    orders, n_tokens = data.orders, len(data.vocabulary)
    start = time.perf_counter()
    solution = solve_kq(orders.query, orders.above, orders.below, fixed=n_tokens)
    seconds = time.perf_counter() - start
    active = np.abs(solution.margins - 1) <= 1e-9
    return MaxMarginKQ(
        coef=csr_array(
            (solution.value, (solution.token, solution.query)), shape=(n_tokens, n_tokens)
        ),
        norm=weighted_norm(solution.value),
        margin=solution.margin,
        gap=solution.gap,
        n_components=solution.n_components,
        n_constraints=len(orders.query),
        seconds=seconds,
        vocabulary=token_array(data.vocabulary),
        _active=np.stack([orders.query, orders.above, orders.below])[:, active],
    )
