"""Which suffixes of the sentences are known: n-grams as numbers, in one sorted array.

A token has the number of its code, and ``n_tokens`` stands for any unknown one. The n-gram that a
token makes with the (n - 1)-gram after it, number s, has the key ``s * (n_tokens + 1) + code``, and
``n_tokens + 1 +`` the index of that key as its number. Numbers grow with n, so the keys of longer
n-grams are larger, and a lookup is a search in ``keys``.

Sentence i ends before position ``stops[i]``, and its last ``room[i]`` tokens may be joined.
"""

import numpy as np

from sklntp._coding import find_sorted
from sklntp._ngrams import join


def learn_suffixes(codes, stops, room, n_tokens, min_count):
    """Keys of the n-grams, n >= 2, that end at least `min_count` sentences, sorted.

    An n-gram ends no more sentences than its suffix does, so it is looked for only where that
    one is known.
    """
    base = n_tokens + 1
    number = codes[stops - 1].astype(np.int64)
    levels, n_known = [np.empty(0, dtype=np.int64)], 0
    alive = np.arange(len(stops))
    for back in range(1, room.max(initial=1)):
        alive = alive[room[alive] > back]
        keys = number[alive] * base + codes[stops[alive] - 1 - back]
        keys, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        frequent = counts >= min_count
        numbers = base + n_known + np.cumsum(frequent) - 1
        number[alive] = numbers[inverse]  # wrong for the rare, which go
        alive = alive[frequent[inverse]]
        levels.append(keys[frequent])
        n_known += len(levels[-1])
        if not len(alive):
            break
    return np.concatenate(levels)


def find_suffixes(codes, stops, room, n_tokens, keys):
    """The known n-grams that end each sentence.

    Returns
    -------
    found : ndarray of int, shape (n_sentences, order of the longest one found - 1)
        Column n - 2 is the index in `keys` of the n-gram, or -1; after a -1 come only others.
    """
    base = n_tokens + 1
    number = codes[stops - 1].astype(np.int64)
    found = [np.empty((0, len(stops)), dtype=np.intp)]
    alive = np.arange(len(stops) if len(keys) else 0)
    for back in range(1, room.max(initial=1)):
        alive = alive[room[alive] > back]
        if not len(alive):
            break
        wanted = number[alive] * base + codes[stops[alive] - 1 - back]
        index, known = find_sorted(keys, wanted)
        alive, index = alive[known], index[known]
        number[alive] = base + index
        found.append(np.full((1, len(stops)), -1))
        found[-1][0, alive] = index
    return np.concatenate(found).T


def write_suffixes(keys, texts):
    """The n-gram token of each key, from the texts of the tokens."""
    written = [*texts, None]  # by number
    for number, code in zip(*(part.tolist() for part in divmod(keys, len(written))), strict=True):
        written.append(join((texts[code], written[number])))
    return written[len(texts) + 1 :]
