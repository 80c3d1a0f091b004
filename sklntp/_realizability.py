"""The paper's assumptions, one by one, each with the sentences that break it."""

from dataclasses import dataclass, field, fields

import numpy as np

from sklntp._coding import find_sorted
from sklntp._orders import cycles, has_above
from sklntp._sequences import flat_ranges, show


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class RealizabilityReport:
    """Which of the paper's assumptions the data meet; ``print`` it.

    N(x) are the next tokens of x in the collocation, n(x) the only one. The first seven
    conditions together are Assumption 1, realizability; the others are not part of it.

    Attributes
    ----------
    every_token_has_pair : Condition
        N(x) is not empty.
    collocation_is_function : Condition
        N(x) has one element.
    collocation_is_injective : Condition
        No two tokens have a next token in common.
    next_tokens_producible : Condition
        In each sentence, N(x) of some token holds the next token.
    orders_acyclic : Condition
        No token is above itself.
    no_confused_tokens : Condition
        No token has another above it and another below it under the same query.
    regeneration : Condition
        In each sentence, n of the token that has no other above it is the next token.
    assumption_3 : Condition
        In each sentence the token that produces the next one occurs at least as often as each
        other token.
    assumption_3_strict : Condition
        ... as all the others together; sufficient, not needed.
    realizable : bool
        Whether the first seven conditions hold.
    regenerated : float
        Share of the sentences for which `regeneration` holds.
    collocation_mode : {"single", "last", "context"}
        Where the collocation was read off.
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
    collocation_mode: str
    _sizes: tuple = field(repr=False)  # sentences, and tokens that have no one-token sentence

    @property
    def realizable(self):
        """Whether Assumption 1 holds, see the class."""
        return all(condition.holds for _, condition in self._conditions()[:7])

    def _conditions(self):
        found = [(f.name, getattr(self, f.name)) for f in fields(self)]
        return [(name, value) for name, value in found if isinstance(value, Condition)]

    def __str__(self):
        n_sentences, not_alone = self._sizes
        lines = [f"realizable: {'yes' if self.realizable else 'no'}"]
        for name, condition in self._conditions():
            needed = name != "assumption_3_strict"
            mark = "ok" if condition.holds else "NO" if needed else "--"
            line = f"  {mark}  {name.replace('_', ' ')}{'' if needed else ' (not needed)'}"
            if not condition.holds:
                line += f": {condition.reason}"
                if len(condition.witnesses):
                    plural = "s" if len(condition.witnesses) > 1 else ""
                    line += f" (sentence{plural} {show(condition.witnesses.tolist())})"
            lines.append(line)
        lines.append(
            f"regenerated: {round(self.regenerated * n_sentences)} of {n_sentences} sentences"
        )
        lines.append(f"collocation: {self.collocation_mode!r}")
        if not_alone and self.collocation_mode != "single":
            lines[-1] += f"; no one-token sentence for {show(not_alone)}"
        return "\n".join(lines)


class _Outside:
    """The name of what is outside the vocabulary, in a message."""

    def __repr__(self):
        return "tokens outside the vocabulary"


class Checks:
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
        self.alone = np.bincount(self.row, weights=self.count)[self.row] == 1  # one-token sentences
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
            collocation_mode=self.data.mode,
            _sizes=(len(self.sentence_row), self.not_alone()),
        )

    def not_alone(self):
        """The tokens of the sentences that no one-token sentence shows."""
        tokens = np.setdiff1d(self.token, self.token[self.alone])
        return [self.names[x] for x in tokens[tokens < self.n_tokens]]

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
            shows &= self.alone
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
