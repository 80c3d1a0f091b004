"""What the data say by themselves: partial orders, realizability, max-margin references."""

from dataclasses import dataclass, field, fields

import numpy as np
from scipy.sparse import csr_array

from sklntp._contexts import find_sorted
from sklntp._dataset import build_dataset
from sklntp._max_margin import solve_kq, solve_ov
from sklntp._orders import cycles, has_above
from sklntp._sequences import flat_ranges, show, token_array

__all__ = [
    "Condition",
    "MaxMarginKQ",
    "MaxMarginOV",
    "PartialOrder",
    "RealizabilityReport",
    "check_realizable",
    "max_margin_kq",
    "max_margin_ov",
    "partial_orders",
]


@dataclass(frozen=True)
class PartialOrder:
    """The order of the tokens under one query; None stands for tokens outside the vocabulary.

    Attributes
    ----------
    optimal : list
        Tokens with nothing above and something below.
    non_optimal : list
        Tokens with something above and nothing below.
    confused : list
        Tokens with both.
    pairs : list of tuple
        (above, below) for every two tokens that meet in a sentence; the order itself is the
        transitive closure.
    """

    optimal: list
    non_optimal: list
    confused: list
    pairs: list
    _vocabulary: list = field(repr=False)

    @property
    def non_comparable(self):
        """Tokens of the vocabulary with nothing above and nothing below."""
        compared = {*self.optimal, *self.non_optimal, *self.confused}
        return [token for token in self._vocabulary if token not in compared]


def partial_orders(X, y, *, collocation="auto", vocabulary=None, sample_weight=None):
    """The query-dependent partial orders of the data.

    In a sentence with last token (query) q and next token y, x >_q x' for every pair of its
    tokens with y in N(x) and y not in N(x'), N(x) being the next tokens of x in the collocation.

    Parameters
    ----------
    X : array-like of sequences
        Sentences, see `NTPTransformerClassifier.fit`.
    y : array-like of shape (n_sentences,)
        Their next tokens.
    collocation : {"auto", "single", "last", "context"}, default="auto"
        Which samples say what follows a token.
    vocabulary : sequence of distinct tokens, default=None
        Tokens to keep; None: the sorted tokens of X.
    sample_weight : array-like of shape (n_sentences,), default=None
        Sentences of weight zero are left out.

    Returns
    -------
    orders : dict
        query -> `PartialOrder`, for every query that occurs.

    References
    ----------
    Huang, Liang, Yang, NeurIPS 2024, arXiv:2409.17335, section 3.

    Examples
    --------
    >>> from sklntp.structure import partial_orders
    >>> X = [["a"], ["b"], ["c"], ["a", "b"]]
    >>> orders = partial_orders(X, ["b", "c", "a", "b"])
    >>> orders["b"].pairs, orders["b"].optimal, orders["b"].non_comparable
    ([('a', 'b')], ['a'], ['c'])
    """
    data = build_dataset(X, y, sample_weight, collocation=collocation, vocabulary=vocabulary)
    orders, tokens = data.orders, [*data.vocabulary, None]
    found = {}
    for q in np.unique(data.contexts.query[data.contexts.query < len(data.vocabulary)]):
        start, stop = np.searchsorted(orders.query, [q, q + 1])
        above, below = orders.above[start:stop], orders.below[start:stop]

        def name(codes):
            return [tokens[code] for code in codes]

        found[tokens[q]] = PartialOrder(
            optimal=name(np.setdiff1d(above, below)),
            non_optimal=name(np.setdiff1d(below, above)),
            confused=name(np.intersect1d(above, below)),
            pairs=list(zip(name(above), name(below), strict=True)),
            _vocabulary=data.vocabulary,
        )
    return found


@dataclass(frozen=True)
class Condition:
    """One condition of a `RealizabilityReport`.

    Attributes
    ----------
    holds : bool
    witnesses : ndarray of int
        Indices in X of the sentences that violate it.
    reason : str
        What violates it, naming tokens and queries; empty if it holds.
    """

    holds: bool
    witnesses: np.ndarray
    reason: str


@dataclass(frozen=True)
class RealizabilityReport:
    """Which of the paper's assumptions the data meet; ``print`` it.

    Attributes
    ----------
    every_token_has_pair, collocation_is_function, collocation_is_injective, \
next_tokens_producible, orders_acyclic, no_confused_tokens, regeneration : Condition
        Together these are Assumption 1.
    assumption_3 : Condition
        In each sentence the token that produces the next one occurs at least as often as each
        other token.
    assumption_3_strict : Condition
        ... as all the others together.
    regenerated : float
        Share of the sentences whose next token is n of the token that has nothing above it among
        the tokens of the sentence.
    """

    every_token_has_pair: Condition
    collocation_is_function: Condition
    collocation_is_injective: Condition
    next_tokens_producible: Condition
    orders_acyclic: Condition
    no_confused_tokens: Condition
    regeneration: Condition
    assumption_3: Condition
    assumption_3_strict: Condition
    regenerated: float

    @property
    def realizable(self):
        """Whether Assumption 1 holds: all conditions but those of Assumption 3."""
        return all(
            getattr(self, f.name).holds
            for f in fields(self)
            if f.name not in ("assumption_3", "assumption_3_strict", "regenerated")
        )

    def __str__(self):
        lines = [f"realizable: {'yes' if self.realizable else 'no'}"]
        for f in fields(self):
            if f.name == "regenerated":
                continue
            condition = getattr(self, f.name)
            line = f"  {'ok' if condition.holds else 'NO'}  {f.name.replace('_', ' ')}"
            if not condition.holds:
                line += f": {condition.reason}"
                if len(condition.witnesses):
                    plural = "s" if len(condition.witnesses) > 1 else ""
                    line += f" (sentence{plural} {show(condition.witnesses.tolist())})"
            lines.append(line)
        lines.append(f"regenerated: {self.regenerated:.6g} of the sentences")
        return "\n".join(lines)


def check_realizable(X, y, *, collocation="auto", vocabulary=None, sample_weight=None):
    """Check the assumptions of the paper, one by one, with witnesses.

    Parameters
    ----------
    X, y, collocation, vocabulary, sample_weight
        As in `partial_orders`.

    Returns
    -------
    report : RealizabilityReport

    References
    ----------
    Huang, Liang, Yang, NeurIPS 2024, arXiv:2409.17335, Assumptions 1 and 3.

    Examples
    --------
    >>> from sklntp.structure import check_realizable
    >>> X = [["a"], ["b"], ["c"], ["a", "b"], ["a", "b"]]
    >>> report = check_realizable(X, ["b", "c", "a", "b", "c"])
    >>> report.realizable
    False
    >>> report.orders_acyclic.reason
    "under query 'b' a cycle of 'a', 'b'"
    """
    data = build_dataset(X, y, sample_weight, collocation=collocation, vocabulary=vocabulary)
    return _Checks(data).report()


class _Outside:
    """The name of what is outside the vocabulary, in a message."""

    def __repr__(self):
        return "tokens outside the vocabulary"


class _Checks:
    """The conditions, on one row per (context, next token), mapped back to sentences."""

    def __init__(self, data):
        self.data = data
        contexts, labels = data.contexts, data.labels
        self.n_tokens, self.n_classes = contexts.n_tokens, len(data.classes)
        self.names, self.class_names = [*data.vocabulary, _Outside()], data.classes.tolist()
        # One entry per (row, distinct token of its context).
        lengths = contexts.lengths[labels.context]
        at = flat_ranges(contexts.offsets[labels.context], lengths)
        self.row = np.repeat(np.arange(len(labels.classes)), lengths)
        self.at, self.token, self.count = at, contexts.tokens[at], contexts.counts[at]
        self.query = contexts.query[labels.context][self.row]
        self.label = labels.classes[self.row]
        self.produces = data.collocation.contains(self.token, self.label, self.n_classes)
        # The row of each sentence.
        keys = labels.context * self.n_classes + labels.classes
        wanted = contexts.inverse * self.n_classes + data.label_codes
        self.sentence_row = find_sorted(keys, wanted)[0]

    def report(self):
        regeneration, regenerated = self.regeneration()
        return RealizabilityReport(
            every_token_has_pair=self.every_token_has_pair(),
            collocation_is_function=self.one_to_one(
                self.data.collocation.pair_token, self.data.collocation.classes, "is followed by"
            ),
            collocation_is_injective=self.one_to_one(
                self.data.collocation.classes, self.data.collocation.pair_token, "follows"
            ),
            next_tokens_producible=self.producible(),
            orders_acyclic=self.acyclic(),
            no_confused_tokens=self.no_confused(),
            regeneration=regeneration,
            assumption_3=self.majority(np.maximum, "one other token"),
            assumption_3_strict=self.majority(np.add, "all others together"),
            regenerated=regenerated,
        )

    def condition(self, bad_entries, reasons):
        """A condition violated by the rows that have a bad entry, and for the given reasons."""
        bad = np.zeros(len(self.data.labels.classes), dtype=bool)
        bad[self.row[bad_entries]] = True
        witnesses = self.data.sentences[bad[self.sentence_row]]
        reason = "; ".join(reasons[:3])
        if len(reasons) > 3:
            reason += f"; and {len(reasons) - 3} more"
        return Condition(not reasons, witnesses, reason)

    def every_token_has_pair(self):
        without = np.setdiff1d(
            np.append(np.arange(self.n_tokens), self.token), self.data.collocation.tokens
        )
        names = show(self.names[x] for x in without)
        reasons = [f"no next token of {names} in the collocation"] if len(without) else []
        return self.condition(np.isin(self.token, without), reasons)

    def one_to_one(self, left, right, verb):
        """Each value of `left` stands with one value of `right`."""
        forward = verb == "is followed by"
        left_names, right_names = self.names, self.class_names
        if not forward:
            left_names, right_names = right_names, left_names
        values, count = np.unique(left, return_counts=True)
        many = values[count > 1]
        reasons = [
            f"{left_names[v]!r} {verb} {show(right_names[r] for r in right[left == v])}"
            for v in many
        ]
        # Witnesses: the sentences of the collocation that show one of these pairs.
        shows = self.produces & np.isin(self.token if forward else self.label, many)
        if self.data.mode == "last":
            shows &= self.token == self.query
        elif self.data.mode == "single":
            alone = np.bincount(self.row, weights=self.count)[self.row] == 1
            shows &= alone
        return self.condition(shows, reasons)

    def producible(self):
        possible = np.zeros(len(self.data.labels.classes), dtype=bool)
        possible[self.row[self.produces]] = True
        bad = ~possible
        labels = np.unique(self.data.labels.classes[bad])
        names = show(self.class_names[v] for v in labels)
        reasons = [f"no token of the sentence is followed by {names}"] if bad.any() else []
        return self.condition(bad[self.row], reasons)

    def acyclic(self):
        bad = np.zeros(len(self.row), dtype=bool)
        reasons = []
        for query, tokens in cycles(self.data.orders, self.n_tokens):
            bad |= self.in_pair((self.query == query) & np.isin(self.token, tokens))
            names = show(self.names[x] for x in tokens)
            reasons.append(f"under query {self.names[query]!r} a cycle of {names}")
        return self.condition(bad, reasons)

    def no_confused(self):
        base, orders = self.n_tokens + 1, self.data.orders
        confused = np.intersect1d(
            orders.query * base + orders.above, orders.query * base + orders.below
        )
        query, token = np.divmod(confused, base)
        reasons = [
            f"under query {self.names[q]!r} both above and below others: "
            + show(self.names[x] for x in token[query == q])
            for q in np.unique(query)
        ]
        bad = np.isin(self.query * base + self.token, confused)
        return self.condition(bad & self.in_pair(np.ones(len(self.row), dtype=bool)), reasons)

    def in_pair(self, chosen):
        """The chosen entries whose row shows a pair of >_q among its chosen entries."""
        n_rows = len(self.data.labels.classes)
        above = np.bincount(self.row[chosen & self.produces], minlength=n_rows) > 0
        below = np.bincount(self.row[chosen & ~self.produces], minlength=n_rows) > 0
        return chosen & (above & below)[self.row]

    def regeneration(self):
        """Every token of the sentence with nothing above it there has the label, and only that."""
        n_rows = len(self.data.labels.classes)
        top = ~has_above(self.data.contexts, self.data.orders)[self.at]
        sizes = np.zeros(self.n_tokens + 1, dtype=int)
        sizes[self.data.collocation.tokens] = np.diff(self.data.collocation.offsets)
        right = self.produces & (sizes[self.token] == 1)
        good = np.bincount(self.row[top], minlength=n_rows) > 0
        good &= np.bincount(self.row[top & ~right], minlength=n_rows) == 0
        n_wrong = np.count_nonzero(~good[self.sentence_row])
        reasons = [f"{n_wrong} of {len(self.sentence_row)} do not follow the rule"]
        regenerated = float(1.0 - n_wrong / len(self.sentence_row))
        return self.condition(~good[self.row], reasons if n_wrong else []), regenerated

    def majority(self, combine, what):
        """The producing token occurs at least as often as the others, combined by max or sum."""
        n_rows = len(self.data.labels.classes)
        most, others = np.zeros(n_rows, dtype=int), np.zeros(n_rows, dtype=int)
        np.maximum.at(most, self.row[self.produces], self.count[self.produces])
        combine.at(others, self.row[~self.produces], self.count[~self.produces])
        bad = (most > 0) & (most < others)
        reasons = [f"the token that produces the next one occurs less often than {what}"]
        return self.condition(bad[self.row], reasons if bad.any() else [])


@dataclass(frozen=True)
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
    classes, vocabulary : ndarray
        The names of rows and columns.
    """

    coef: csr_array
    base: np.ndarray
    norm: float
    margin: float
    gap: float
    n_components: int
    classes: np.ndarray
    vocabulary: np.ndarray


@dataclass(frozen=True)
class MaxMarginKQ:
    """The reference W_kq*: minimum norm with (x - x')^T W q >= 1 for all x >_q x' that meet.

    Tokens on a cycle of an order share one value.

    Attributes
    ----------
    coef : csr_array of shape (n_tokens, n_tokens)
        W_kq*[key token, query token].
    margin : float
        The smallest margin outside cycles: 1 within rounding, inf without pairs.
    gap : float
        The largest relative duality gap of a component.
    n_components : int
        Independent problems: connected components of the orders of all queries.
    vocabulary : ndarray
        The names of rows and columns.
    """

    coef: csr_array
    margin: float
    gap: float
    n_components: int
    vocabulary: np.ndarray


def max_margin_ov(X, y, *, collocation="auto", vocabulary=None, sample_weight=None):
    """The max-margin reference of W_ov, in closed form.

    A token with k of C classes as next tokens has (C - k) / C at those and -k / C elsewhere.

    Parameters
    ----------
    X, y, collocation, vocabulary, sample_weight
        As in `partial_orders`.

    Returns
    -------
    reference : MaxMarginOV

    Examples
    --------
    >>> from sklntp.structure import max_margin_ov
    >>> round(max_margin_ov([["a"], ["b"], ["c"]], ["b", "c", "a"]).norm ** 2, 12)
    2.0
    """
    data = build_dataset(X, y, sample_weight, collocation=collocation, vocabulary=vocabulary)
    token, label = data.collocation.pair_token, data.collocation.classes
    n_tokens, n_classes = len(data.vocabulary), len(data.classes)
    solution = solve_ov(token, label, n_classes)
    base = np.zeros(n_tokens)
    base[solution.tokens] = solution.base_value
    excess = solution.label_value - base[token]
    # Without a class outside N(x) there is no constraint, hence no margin.
    constrained = np.diff(data.collocation.offsets) < n_classes
    margin = float(np.min(excess[np.isin(token, solution.tokens[constrained])], initial=np.inf))
    return MaxMarginOV(
        coef=csr_array((excess, (label, token)), shape=(n_classes, n_tokens)),
        base=base,
        norm=solution.norm,
        margin=margin,
        gap=0.0,
        n_components=len(solution.tokens),
        classes=data.classes,
        vocabulary=token_array(data.vocabulary),
    )


def max_margin_kq(X, y, *, collocation="auto", vocabulary=None, sample_weight=None):
    """The max-margin reference of W_kq, with its certificate.

    Parameters
    ----------
    X, y, collocation, vocabulary, sample_weight
        As in `partial_orders`.

    Returns
    -------
    reference : MaxMarginKQ

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
    >>> reference.margin
    1.0
    """
    data = build_dataset(X, y, sample_weight, collocation=collocation, vocabulary=vocabulary)
    orders, n_tokens = data.orders, len(data.vocabulary)
    solution = solve_kq(orders.query, orders.above, orders.below, fixed=n_tokens)
    return MaxMarginKQ(
        coef=csr_array(
            (solution.value, (solution.token, solution.query)), shape=(n_tokens, n_tokens)
        ),
        margin=solution.margin,
        gap=solution.gap,
        n_components=solution.n_components,
        vocabulary=token_array(data.vocabulary),
    )
