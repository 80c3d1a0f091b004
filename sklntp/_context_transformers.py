"""Contexts to contexts: what a next-token model shall see of them, written as tokens.

Each transformer reads sentences to codes once, places whole arrays of codes, and writes lists.
"""

from itertools import pairwise
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sklntp._callbacks import CallbackSupportMixin, fit_callbacks
from sklntp._coding import code_ints
from sklntp._doc_link import DocLink
from sklntp._ngrams import tag, text, untag
from sklntp._rows import plain_token, read_rows, short
from sklntp._saving import VersionedState
from sklntp._sentence_ends import find_ordinary, sentence_of
from sklntp._sequences import (
    Sequences,
    flat_ranges,
    ragged_rows,
    read_sequences,
    show,
    store_features,
    token_array,
)


def write_sentences(tokens, codes, lengths):
    """Sentences of `lengths` as a 1-D object array of lists: ``tokens[code]`` for each code."""
    tokens = np.fromiter(tokens, dtype=object, count=len(tokens))
    flat = tokens[codes].tolist()
    offsets = [0, *np.cumsum(lengths).tolist()]
    return np.fromiter(
        (flat[start:stop] for start, stop in pairwise(offsets)), dtype=object, count=len(lengths)
    )


def write_pieces(tokens, pieces):
    """As `write_sentences`, each sentence made of one piece after the other.

    A piece is the codes of all sentences, and how many of them belong to each.
    """
    lengths = sum(n for _, n in pieces)
    at = np.cumsum(lengths) - lengths
    codes = np.empty(lengths.sum(), dtype=np.intp)
    for piece, n in pieces:
        codes[flat_ranges(at, n)] = piece
        at = at + n
    return write_sentences(tokens, codes, lengths)


class ContextTransformer(
    DocLink, VersionedState, CallbackSupportMixin, TransformerMixin, BaseEstimator
):
    """Reads sentences once per call: `_prepare`, then `_learn` and `_write` what it returns."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Check the sentences, and learn what `transform` needs to know of them.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, in any form that :class:`sklntp.NTPTransformerClassifier` takes.

        y : object, default=None
            Ignored.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError, TypeError
            On invalid input or parameters, naming the sentence or the parameter.
        """
        self._fit(X, y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X, y=None):
        """The same as ``fit(X).transform(X)``; X is read once.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        y : object, default=None
            Ignored.

        Returns
        -------
        sentences : ndarray of shape (n_sentences,), dtype object
            See `transform`.

        Raises
        ------
        ValueError, TypeError
            As `fit`.
        """
        return self._write(self._fit(X, y))

    def transform(self, X):
        """Write the sentences anew.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        Returns
        -------
        sentences : ndarray of shape (n_sentences,), dtype object
            A list of tokens each.

        Raises
        ------
        ValueError, TypeError
            On invalid input, naming the sentence.
        """
        check_is_fitted(self)
        self._validate_params()  # those that need no fit may not have met theirs before
        return self._write(self._prepare(self._read(X, reset=False)))

    def _read(self, X, *, reset):
        return read_sequences(self, X, reset=reset)

    def _prepare(self, sequences):
        return sequences

    def _fit(self, X, y):
        callbacks = fit_callbacks(self, 0, X, y, None)
        sequences = self._read(X, reset=True)
        store_features(self, sequences.features)
        prepared = self._prepare(sequences)
        self._learn(prepared)
        for callback in callbacks:
            callback.finish()
        return prepared

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags


class ContextWindow(ContextTransformer):
    """Keep the last tokens of each sentence, and mark the beginning of those that are whole.

    A sentence shorter than `max_length` gets `start_token` in front: its beginning is in sight.
    No result is longer than `max_length`; a sentence of exactly that length stays as it is.

    Parameters
    ----------
    max_length : int, default=20
        Keep that many tokens, the last ones.

    start_token : str, int or None, default=None
        Mark of a beginning, which may not occur in the sentences. With an int all tokens must be
        int; with a str, tokens that are numbers are written as str. With a start token a sentence
        may be empty, and becomes ``[start_token]``. None: nothing is put in front.

    Attributes
    ----------
    n_features_in_ : int
        The length of the sentences, if all have the same.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names, if X is a DataFrame with one token per column.

    See Also
    --------
    make_contexts : Cuts sequences into contexts and next tokens.

    Notes
    -----
    Nothing is learned, and `transform` works without `fit`. Where contexts come from
    :func:`make_contexts` with a `max_length` of L, take ``ContextWindow(L)`` or less: a context
    that was cut to L tokens is taken for a whole one by a longer window.

    Examples
    --------
    >>> from sklntp.preprocessing import ContextWindow
    >>> X = [["a", "b", "c", "d"], ["c", "d", "a"], ["b"]]
    >>> ContextWindow(3, start_token="^").transform(X).tolist()
    [['b', 'c', 'd'], ['c', 'd', 'a'], ['^', 'b']]
    """

    _parameter_constraints = {
        "max_length": [Interval(Integral, 1, 2**62, closed="left")],
        "start_token": [str, Integral, None],
    }

    def __init__(self, max_length=20, start_token=None):
        self.max_length = max_length
        self.start_token = start_token

    def _read(self, X, *, reset):
        rows = None if self.start_token is None else ragged_rows(X)
        if rows is None or all(map(len, rows)):
            return super()._read(X, reset=reset)
        tokens, codes, lengths = read_rows(rows)
        return Sequences(tokens, codes, np.concatenate([[0], np.cumsum(lengths)]))

    def _learn(self, sequences):
        self._tokens(sequences)

    def _tokens(self, sequences):
        """The distinct tokens as they are written, checked against the start token."""
        start, tokens = plain_token(self.start_token), sequences.tokens
        if start is None:
            return tokens
        if isinstance(start, str):
            tokens = list(map(text, tokens))
        elif isinstance(start, bool) or not all(isinstance(token, int) for token in tokens):
            raise TypeError(
                "start_token must be a str, or an int where all tokens are int; got "
                f"{short(start)}, and the tokens {show(tokens)}."
            )
        if start in tokens:
            position = int(np.argmax(sequences.codes == tokens.index(start)))
            raise ValueError(
                f"start_token={short(start)} must be no token of X, but sentence "
                f"{sentence_of(sequences.offsets, position)} holds it."
            )
        return tokens

    def _write(self, sequences):
        tokens, lengths = self._tokens(sequences), sequences.lengths
        kept = np.minimum(lengths, self.max_length)
        last = sequences.codes[flat_ranges(sequences.offsets[1:] - kept, kept)]
        if self.start_token is None:
            return write_sentences(tokens, last, kept)
        is_whole = (lengths < self.max_length).astype(np.intp)
        tokens = [*tokens, plain_token(self.start_token)]
        return write_pieces(tokens, [(len(tokens) - 1, is_whole), (last, kept)])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class PositionTagger(ContextTransformer):
    """Write the last tokens also with their distance from the end, "x@0" for the last one.

    A sentence without positions becomes one that has them: each tagged token is a token of its
    own to the model. The untagged tokens come first, then the tagged ones, so that the last token,
    the model's query, is the last of the sentence, tagged.

    Parameters
    ----------
    max_distance : int, default=3
        Tag that many tokens, the last ones.

    keep_untagged : bool, default=True
        Whether all tokens are written untagged as well. If not, the tokens before the last
        `max_distance` are dropped.

    Attributes
    ----------
    n_features_in_ : int
        The length of the sentences, if all have the same.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names, if X is a DataFrame with one token per column.

    See Also
    --------
    NGramTokens : Adds the last n-grams as tokens.

    Notes
    -----
    Tokens become str. The n-grams that :class:`NGramTokens` put in front stay in front, one that
    :class:`LastNGram` put at the end stays at the end; neither is tagged or counted.

    `transform` works without `fit`; `fit` remembers which tokens it saw and wrote, so that a token
    spelt like a tagged one, "x@0", is refused where the two would be mixed up.

    Examples
    --------
    >>> from sklntp.preprocessing import PositionTagger
    >>> PositionTagger(2).transform([["a", "b", "c"], ["b"]]).tolist()
    [['a', 'b', 'c', 'b@1', 'c@0'], ['b', 'b@0']]
    >>> PositionTagger(2, keep_untagged=False).transform([["a", "b", "c"], ["b"]]).tolist()
    [['b@1', 'c@0'], ['b@0']]
    """

    _parameter_constraints = {
        "max_distance": [Interval(Integral, 1, 2**62, closed="left")],
        "keep_untagged": ["boolean"],
    }

    def __init__(self, max_distance=3, keep_untagged=True):
        self.max_distance = max_distance
        self.keep_untagged = keep_untagged

    def _prepare(self, sequences):
        return find_ordinary(sequences, front=True, end=True)

    def _learn(self, ordinary):
        self._seen_tagged = self._seen_like_tagged = token_array([])
        tagged, _, _ = self._tag(ordinary)
        self._seen_tagged = token_array(sorted(tagged))
        self._seen_like_tagged = token_array(sorted(self._like_tagged(ordinary)))

    def _write(self, ordinary):
        tagged, tag_codes, n_tagged = self._tag(ordinary)
        starts, stops = ordinary.offsets[:-1], ordinary.stops
        n_before = (stops if self.keep_untagged else ordinary.starts) - starts  # n-grams in front
        n_after = ordinary.offsets[1:] - stops
        pieces = [
            (ordinary.codes[flat_ranges(starts, n_before)], n_before),
            (tag_codes + np.intp(len(ordinary.texts)), n_tagged),
            (ordinary.codes[flat_ranges(stops, n_after)], n_after),
        ]
        return write_pieces([*ordinary.texts, *tagged], pieces)

    def _tag(self, ordinary):
        """The distinct tagged tokens, the codes of those to write, how many each sentence has."""
        n_tagged = np.minimum(ordinary.lengths, self.max_distance)
        positions = flat_ranges(ordinary.stops - n_tagged, n_tagged)
        distances = np.repeat(ordinary.stops, n_tagged) - 1 - positions
        n_distances = int(n_tagged.max(initial=1))
        keys, tag_codes = code_ints(ordinary.codes[positions] * np.int64(n_distances) + distances)
        tagged = [tag(ordinary.texts[key // n_distances], key % n_distances) for key in keys]

        twice = self._written_for_two(ordinary, tagged)
        if twice is not None:
            if twice in ordinary.texts:
                position = np.argmax(ordinary.codes == ordinary.texts.index(twice))
            else:
                position = positions[np.argmax(tag_codes == tagged.index(twice))]
            plain, k = untag(twice)
            raise ValueError(
                f"Sentence {sentence_of(ordinary.offsets, position)}: the token {short(twice)} "
                f"would stand for two, itself and the token {short(plain)} at distance {k} from "
                "the end. Rename one of them."
            )
        return tagged, tag_codes, n_tagged

    def _written_for_two(self, ordinary, tagged):
        """The first token that is both a tagged one and an untagged one, now or in `fit`."""
        like, seen_like = self._like_tagged(ordinary), getattr(self, "_seen_like_tagged", ())
        if not len(like) and not len(seen_like):  # nearly always
            return None
        tagged, seen_tagged = set(tagged), set(getattr(self, "_seen_tagged", ()))
        twice = (tagged | seen_tagged).intersection(like) | tagged.intersection(seen_like)
        return min(twice, default=None)

    def _like_tagged(self, ordinary):
        """The tokens that are written untagged and are spelt like a tagged one."""
        distances = ordinary.distances
        like = (distances >= 0) & (distances < self.max_distance) & self.keep_untagged
        return [ordinary.texts[code] for code in np.flatnonzero(like)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
