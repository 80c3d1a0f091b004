"""The collocation: which (token, next token) pairs train W_ov, and with what weight.

"single" reads it off the one-token sentences (the paper), "last" takes (last token, next token) of
every sentence, "context" (each distinct token, next token) of every sentence.
"""

from dataclasses import dataclass

import numpy as np

from sklntp._coding import find_sorted
from sklntp._contexts import sum_by_key
from sklntp._sequences import flat_ranges

COLLOCATION_MODES = ("auto", "single", "last", "context")


@dataclass(frozen=True)
class Collocation:
    """The pairs N = {(x, v)}, sorted by token, then class; tokens without a pair have none."""

    tokens: np.ndarray  # (n_paired,) the tokens with a pair, increasing
    offsets: np.ndarray  # (n_paired + 1,) the pairs of tokens[i] are offsets[i]:offsets[i + 1]
    classes: np.ndarray  # (n_pairs,)
    weight: np.ndarray  # (n_pairs,) sample weight
    share: np.ndarray  # (n_pairs,) f_xv: share of the token's weight; sums to 1 per token
    probability: np.ndarray  # (n_paired,) pi_x: weight of the token in the loss; sums to 1

    @property
    def pair_token(self):
        """The token of each pair, (n_pairs,)."""
        return np.repeat(self.tokens, np.diff(self.offsets))

    def contains(self, tokens, classes, n_classes):
        """Whether each (token, class) is a pair, elementwise over arrays of any one shape."""
        tokens, classes = np.broadcast_arrays(tokens, classes)
        last = int(tokens.max(initial=-1)) + 1
        only, several = np.full(last, -1), np.zeros(last, dtype=bool)
        present = self.tokens < last
        paired = self.tokens[present]
        only[paired] = self.classes[self.offsets[:-1][present]]
        several[paired] = np.diff(self.offsets)[present] > 1
        found = only[tokens] == classes
        # Most tokens have one next token, and need no search.
        at = np.flatnonzero(several[tokens] & ~found)
        if len(at):
            keys = self.pair_token * n_classes + self.classes
            wanted = tokens.ravel()[at].astype(np.int64) * n_classes + classes.ravel()[at]
            found.reshape(-1)[at] = find_sorted(keys, wanted)[1]
        return found


def resolve_mode(mode, contexts):
    """The mode that "auto" stands for: "single" if every known token stands alone somewhere."""
    if mode != "auto":
        return mode
    alone = np.zeros(contexts.n_tokens + 1, dtype=bool)
    alone[contexts.query[is_single(contexts)]] = True
    alone[-1] = True  # unknown tokens do not count
    return "single" if alone[contexts.tokens].all() else "last"


def is_single(contexts):
    """Contexts of a one-token sentence: one distinct token, occurring once."""
    single = contexts.lengths == 1
    single[single] = contexts.counts[contexts.offsets[:-1][single]] == 1
    return single


def build_collocation(mode, contexts, labels, n_classes):
    """The pairs of a mode with their weights.

    Parameters
    ----------
    mode : {"single", "last", "context"}
    contexts : Contexts
    labels : Labels
    n_classes : int

    Returns
    -------
    Collocation

    Raises
    ------
    ValueError
        If there is no pair at all; the message names the remedy.
    """
    context, classes, weight = labels.context, labels.classes, labels.weight
    if mode == "context":
        lengths = contexts.lengths[context]
        tokens = contexts.tokens[flat_ranges(contexts.offsets[context], lengths)]
        classes, weight = np.repeat(classes, lengths), np.repeat(weight, lengths)
    else:
        tokens = contexts.query[context]
        if mode == "single":
            single = is_single(contexts)[context]
            tokens, classes, weight = tokens[single], classes[single], weight[single]
    known = tokens < contexts.n_tokens
    if not known.any():
        remedy = 'Use collocation="last" or "context", or add one-token sentences.'
        if mode == "context":
            remedy = "The vocabulary has none of the tokens in X."
        what = {"single": "one-token sentence", "last": "sentence ending", "context": "sentence"}
        raise ValueError(
            f"collocation={mode!r} finds no {what[mode]} with a known token, so nothing can train "
            f"W_ov. {remedy}"
        )
    key, weight = sum_by_key(
        tokens[known].astype(np.int64) * n_classes + classes[known], weight[known]
    )
    pair_token, classes = np.divmod(key, n_classes)
    paired, first = np.unique(pair_token, return_index=True)
    offsets = np.append(first, len(key))
    token_weight = np.add.reduceat(weight, first)
    if mode == "single":  # the paper: each token counts once
        probability = np.full(len(paired), 1.0 / len(paired))
    else:
        probability = token_weight / token_weight.sum()
    return Collocation(
        tokens=paired,
        offsets=offsets,
        classes=classes,
        weight=weight,
        share=weight / np.repeat(token_weight, np.diff(offsets)),
        probability=probability,
    )
