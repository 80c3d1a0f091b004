"""Transformers that write what ends a sentence as one token, an n-gram, where `fit` has met it."""

from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval

from sklntp._coding import lookup
from sklntp._context_transformers import ContextTransformer, write_pieces
from sklntp._sentence_ends import find_ordinary
from sklntp._sequences import token_array
from sklntp._suffixes import find_suffixes, learn_suffixes, write_suffixes


class _SuffixTransformer(ContextTransformer):
    """Knows the n-grams that end the sentences of `fit`, see `sklntp._suffixes`."""

    # May n-grams stand in front of the sentences read?
    _ngrams_in_front = False

    def _prepare(self, sequences):
        return find_ordinary(sequences, front=self._ngrams_in_front, end=False)

    def _learn_ngrams(self, ordinary, most):
        """Learn the n-grams of up to `most` tokens; returns the key of those at each end."""
        ends = ordinary.codes, ordinary.stops, ordinary.room(most), len(ordinary.texts)
        self._texts, self._keys = token_array(ordinary.texts), learn_suffixes(*ends, self.min_count)
        return find_suffixes(*ends, self._keys)

    def _keep(self, is_kept):
        """Write the n-grams for which `is_kept` is true, sorted."""
        ngrams = write_suffixes(self._keys, self._texts.tolist())
        kept = sorted(np.flatnonzero(is_kept).tolist(), key=ngrams.__getitem__)
        self.ngrams_ = token_array([ngrams[k] for k in kept])
        self._place = np.full(len(self._keys), -1)  # index in `ngrams_` of each key
        self._place[kept] = np.arange(len(kept))

    def _find(self, ordinary, most):
        """Places in `ngrams_`, (n_sentences, up to most - 1), -1 where none, short ones first."""
        known = self._texts.tolist()
        codes = lookup(ordinary.texts, known)[ordinary.codes]
        ends = codes, ordinary.stops, ordinary.room(most), len(known)
        found = find_suffixes(*ends, self._keys)
        return np.where(found < 0, -1, self._place[found])


class LastNGram(_SuffixTransformer):
    """Append the n-gram of the last tokens: the model's query becomes the last n tokens.

    Of a sentence with fewer than n tokens it is the n-gram of all of them. Only n-grams that were
    queries in `fit` are written: one that the model has not been trained on as a query would tell
    it nothing. Where the n-gram of the last n tokens is none of these, that of the last n - 1 is
    taken, and so on; where none is left, nothing is appended and the last token stays the query.

    Parameters
    ----------
    n : int, default=2
        Join that many tokens. With 1 sentences stay as they are.

    min_count : int, default=2
        Know an n-gram only if it ends that many sentences of `fit`; the others back off in `fit`
        too. With 1 nearly all queries of `fit` are n-grams, and the last token that an unseen one
        backs off to may never have been a query; with 2 it has been wherever n-grams are rare.

    Attributes
    ----------
    ngrams_ : ndarray of shape (n_ngrams,)
        The n-grams that may be appended, sorted.

    n_features_in_ : int
        The length of the sentences, if all have the same.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names, if X is a DataFrame with one token per column.

    See Also
    --------
    NGramTokens : Adds the last n-grams, and leaves the query as it is.

    Notes
    -----
    Tokens become str, and may not contain the arrow that joins them. The n-grams that
    :class:`NGramTokens` put in front stay, and are not joined. :class:`PositionTagger` may come
    after both or before both, not between them. If before, the n-grams join tagged tokens, up to
    its `max_distance`; a last token spelt "x@0" is taken for a tagged one.

    Examples
    --------
    >>> from sklntp.preprocessing import LastNGram
    >>> last = LastNGram(2, min_count=1).fit([["a", "b", "c"], ["c", "a", "b"], ["b"]])
    >>> last.ngrams_.tolist()
    ['a→b', 'b→c']
    >>> last.transform([["c", "c", "a", "b"], ["c", "b"], ["b"]]).tolist()
    [['c', 'c', 'a', 'b', 'a→b'], ['c', 'b'], ['b']]
    """

    _parameter_constraints = {
        "n": [Interval(Integral, 1, 2**62, closed="left")],
        "min_count": [Interval(Integral, 1, 2**62, closed="left")],
    }
    _ngrams_in_front = True

    def __init__(self, n=2, min_count=2):
        self.n = n
        self.min_count = min_count

    def _learn(self, ordinary):
        found = self._learn_ngrams(ordinary, self.n)
        # A known n-gram that only ever stood inside longer ones has been no query.
        is_query = np.zeros(len(self._keys), dtype=bool)
        is_query[_last_column(found)] = True
        self._keep(is_query)

    def _write(self, ordinary):
        places = self._find(ordinary, self.n)
        is_some = (places >= 0).any(axis=1).astype(np.intp)
        ngram = _last_column(places) + len(ordinary.texts)
        pieces = [(ordinary.codes, np.diff(ordinary.offsets)), (ngram, is_some)]
        return write_pieces([*ordinary.texts, *self.ngrams_.tolist()], pieces)


class NGramTokens(_SuffixTransformer):
    """Add the last n-grams of each sentence as tokens in front of it, longest first.

    `fit` learns which n-grams there are: those that end at least `min_count` sentences. Others are
    not written. The last token, the model's query, stays the last.

    Parameters
    ----------
    max_n : int, default=3
        Join up to that many tokens. With 1 sentences stay as they are.

    min_count : int, default=2
        Know an n-gram only if it ends that many sentences of `fit`.

    Attributes
    ----------
    ngrams_ : ndarray of shape (n_ngrams,)
        The n-grams known, sorted. The suffixes of a known n-gram are known.

    n_features_in_ : int
        The length of the sentences, if all have the same.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names, if X is a DataFrame with one token per column.

    See Also
    --------
    LastNGram : Makes the last n tokens the query.
    PositionTagger : Tells the last tokens apart by their positions.

    Notes
    -----
    Tokens become str, and may not contain the arrow that joins them. :class:`LastNGram` comes after
    this transformer; :class:`PositionTagger` after both or before both. If before, the n-grams join
    tagged tokens, up to its `max_distance`; a last token spelt "x@0" is taken for a tagged one.

    Examples
    --------
    >>> from sklntp.preprocessing import NGramTokens
    >>> tokens = NGramTokens(3).fit([["a", "b", "c"], ["c", "a", "b", "c"], ["b", "b", "c"]])
    >>> tokens.ngrams_.tolist()
    ['a→b→c', 'b→c']
    >>> tokens.transform([["a", "a", "b", "c"], ["c", "b", "c"], ["a", "b"]]).tolist()
    [['a→b→c', 'b→c', 'a', 'a', 'b', 'c'], ['b→c', 'c', 'b', 'c'], ['a', 'b']]
    """

    _parameter_constraints = {
        "max_n": [Interval(Integral, 1, 2**62, closed="left")],
        "min_count": [Interval(Integral, 1, 2**62, closed="left")],
    }

    def __init__(self, max_n=3, min_count=2):
        self.max_n = max_n
        self.min_count = min_count

    def _learn(self, ordinary):
        self._learn_ngrams(ordinary, self.max_n)
        self._keep(np.ones(len(self._keys), dtype=bool))

    def _write(self, ordinary):
        places = self._find(ordinary, self.max_n)[:, ::-1]
        is_known = places >= 0
        ngrams = places[is_known] + len(ordinary.texts)
        pieces = [(ngrams, is_known.sum(axis=1)), (ordinary.codes, np.diff(ordinary.offsets))]
        return write_pieces([*ordinary.texts, *self.ngrams_.tolist()], pieces)


def _last_column(places):
    """The last place of each row that is one (not -1), of the rows that have any."""
    rows = np.flatnonzero((places >= 0).any(axis=1))
    last = places.shape[1] - 1 - np.argmax(places[rows, ::-1] >= 0, axis=1) if len(rows) else rows
    return places[rows, last]
