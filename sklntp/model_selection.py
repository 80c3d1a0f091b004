"""Cross-validation on sentences that the model has not seen in training."""

import numpy as np
from sklearn.model_selection import GroupKFold
from sklearn.utils import check_consistent_length

from sklntp._contexts import merge_contexts
from sklntp._sequences import read_sequences

__all__ = ["UnseenSentenceKFold"]


class UnseenSentenceKFold(GroupKFold):
    """K-fold splitter that tests on unseen sentences only.

    Without positions a sentence is its *context*: the last token and the bag of its tokens with
    counts. Sentences of equal context stay together, so no context is both in a training fold
    and in its test fold. One-token sentences are in every training fold and are never tested:
    they define the collocation, the next token of each single token.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds. Must be at least 2.

    shuffle : bool, default=False
        Whether to shuffle the contexts before they are dealt out to the folds. Without it the
        folds are balanced by number of sentences, with it by number of contexts, as in
        :class:`sklearn.model_selection.GroupKFold`.

    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling; only with ``shuffle=True``.

    Notes
    -----
    As soon as `X` has a one-token sentence, the test folds are no partition of `X`. Whatever needs
    one then refuses this splitter: :func:`sklearn.model_selection.cross_val_predict` and what
    builds on it, such as :class:`sklearn.ensemble.StackingClassifier`.

    Examples
    --------
    >>> from sklntp.model_selection import UnseenSentenceKFold
    >>> X = [["a"], ["b"], ["a", "a", "b"], ["a", "b"], ["b", "a"], ["a", "b"]]
    >>> cv = UnseenSentenceKFold(n_splits=3)
    >>> sorted(test.tolist() for train, test in cv.split(X))
    [[2], [3, 5], [4]]
    """

    def split(self, X, y=None, groups=None):
        """Generate indices to split sentences into training and test set.

        Parameters
        ----------
        X : list, tuple, 1-D object array or Series of sequences, 2-D array or DataFrame
            The sentences, in the forms of :func:`sklntp.preprocessing.as_sequences`.

        y : array-like of shape (n_sentences,), default=None
            Only its length is checked.

        groups : object, default=None
            Ignored: the groups are the contexts in `X`.

        Yields
        ------
        train : ndarray
            The training set indices of that split, ascending.

        test : ndarray
            The test set indices of that split, ascending.

        Raises
        ------
        ValueError
            If a sentence is empty, if `X` and `y` differ in length, or if there are fewer testable
            contexts (those of two or more tokens) than folds.
        TypeError
            If `X` is none of the accepted forms, or a token is not hashable.
        """
        sequences = read_sequences(None, X, reset=False)
        if y is not None:
            check_consistent_length(sequences, y)
        testable = np.flatnonzero(sequences.lengths > 1)
        contexts = merge_contexts(sequences.codes, sequences.offsets, len(sequences.tokens))
        contexts = contexts.inverse[testable]
        n_contexts = len(np.unique(contexts))
        if n_contexts < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} folds need at least as many testable contexts, that is "
                "distinct (last token, bag of tokens) of sentences of two or more tokens; "
                f"got {n_contexts}."
            )
        for _, test in super().split(testable, groups=contexts):
            in_training = np.ones(len(sequences), dtype=bool)
            in_training[testable[test]] = False
            yield np.flatnonzero(in_training), testable[test]
