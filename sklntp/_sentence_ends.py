"""Ordinary tokens: all but the n-grams that stand in front of a sentence, or at its end."""

from dataclasses import dataclass

import numpy as np

from sklntp._ngrams import ARROW, distance, is_ngram, parts, text
from sklntp._rows import short

_ALLOWED = {  # front, end: of `find_ordinary`
    (False, False): "no n-gram may stand in a sentence yet",
    (True, False): "an n-gram may only stand in front of a sentence whose last tokens it joins "
    "(NGramTokens comes before LastNGram, PositionTagger before or after both)",
    (True, True): "an n-gram may only stand in front of or behind a sentence whose last tokens "
    "it joins",
}


@dataclass(frozen=True)
class Ordinary:
    """Sentence i has its ordinary tokens from position ``starts[i]`` to before ``stops[i]``."""

    texts: list  # the distinct tokens of all sentences, str
    distances: np.ndarray  # (n_tokens,) intp, of the tagged tokens, -1 of the others
    codes: np.ndarray  # (n_positions,) int32
    offsets: np.ndarray  # (n_sentences + 1,) intp, of the sentences as they are
    starts: np.ndarray  # (n_sentences,) intp
    stops: np.ndarray  # (n_sentences,) intp

    @property
    def lengths(self):
        """Number of ordinary tokens of each sentence, (n_sentences,)."""
        return self.stops - self.starts

    def room(self, most):
        """How many of its last tokens an n-gram of each sentence may join, at most `most`.

        After "x@0" these are the tokens tagged 1, 2, ... before it: the untagged ones that
        stand further in front are the same tokens once more.
        """
        room = np.minimum(self.lengths, most)
        if self.distances.max(initial=-1) < 0:
            return room
        run = np.flatnonzero(self.distances[self.codes[self.stops - 1]] == 0)
        for k in range(1, room[run].max(initial=1)):
            goes_on = room[run] > k
            goes_on[goes_on] = self.distances[self.codes[self.stops[run[goes_on]] - 1 - k]] == k
            room[run[~goes_on]] = np.minimum(room[run[~goes_on]], k)
            run = run[goes_on]
        return room


def sentence_of(offsets, position):
    """Index of the sentence that a position, or each of an array, belongs to."""
    return np.searchsorted(offsets, position, side="right") - 1


def find_ordinary(sequences, *, front, end):
    """Write all tokens as str, and tell the ordinary ones from the n-grams.

    Parameters
    ----------
    sequences : Sequences
    front, end : bool
        Whether n-grams may stand in front of a sentence, and at its end.

    Raises
    ------
    ValueError
        Naming the sentence and the token, if a token with an arrow stands elsewhere, or is no
        n-gram of the last ordinary tokens of its sentence.
    """
    texts, codes, offsets = list(map(text, sequences.tokens)), sequences.codes, sequences.offsets
    distances = np.fromiter(map(distance, texts), np.intp, count=len(texts))
    is_joined = np.fromiter(map(is_ngram, texts), bool, count=len(texts))
    if not is_joined.any():
        return Ordinary(texts, distances, codes, offsets, offsets[:-1], offsets[1:])
    is_joined = is_joined[codes]
    ordinary, joined = np.flatnonzero(~is_joined), np.flatnonzero(is_joined)
    first, last = np.searchsorted(ordinary, offsets[:-1]), np.searchsorted(ordinary, offsets[1:])
    starts, stops = offsets[:-1].copy(), offsets[:-1].copy()  # no ordinary token: none in sight
    some = last > first
    starts[some], stops[some] = ordinary[first[some]], ordinary[last[some] - 1] + 1
    found = Ordinary(texts, distances, codes, offsets, starts, stops)

    sentence = sentence_of(offsets, joined)
    good = (front & (joined < starts[sentence])) | (end & (joined >= stops[sentence]))
    good[good] = _joins_the_last(found, joined[good], sentence[good])
    if not good.all():
        wrong = int(np.argmin(good))
        raise ValueError(
            f"Sentence {sentence[wrong]} holds the token {short(texts[codes[joined[wrong]]])}. The "
            f"arrow {ARROW!r} makes it an n-gram, and here {_ALLOWED[front, end]}. Replace the "
            "arrow in tokens of your own."
        )
    return found


def _joins_the_last(ordinary, positions, sentence):
    """Whether the n-gram at each position joins the last ordinary tokens of its sentence."""
    good = np.zeros(len(positions), dtype=bool)
    index = {word: code for code, word in enumerate(ordinary.texts)}
    distinct, which = np.unique(ordinary.codes[positions], return_inverse=True)
    joined = [parts(ordinary.texts[code]) for code in distinct]
    orders = np.fromiter(map(len, joined), np.intp, count=len(joined))
    for n in np.unique(orders):
        wanted = np.full((len(distinct), n), -1)
        for k in np.flatnonzero(orders == n):
            wanted[k] = [index.get(part, -1) for part in joined[k]]
        here = np.flatnonzero(orders[which] == n)
        here = here[ordinary.lengths[sentence[here]] >= n]
        last = ordinary.stops[sentence[here], None] - n + np.arange(n)  # (n_here, n)
        good[here] = (ordinary.codes[last] == wanted[which[here]]).all(axis=1)
    return good
