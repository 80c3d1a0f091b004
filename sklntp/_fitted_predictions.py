"""What a fitted estimator says of sentences: next tokens, probabilities, attention."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklntp._dataset import encode
from sklntp._forward import position_attention
from sklntp._memory import check_memory
from sklntp._prediction import Predictor, log_softmax, softmax
from sklntp._sequences import read_sequences
from sklntp._targets import label_codes, read_labels

_INSTEAD = (
    "Give X in pieces, or use predict for the most probable next tokens, label_log_proba for the "
    "log-probabilities of given ones: neither holds a number per sentence and class."
)


class FittedPredictions:
    """Predictions of `NTPTransformerClassifier`, from the matrices of `FittedMatrices`."""

    def _codes(self, X):
        """Sentences as token codes and offsets."""
        check_is_fitted(self)
        sequences = read_sequences(self, X, reset=False)
        vocabulary = self.vocabulary_.tolist()
        return encode(sequences, vocabulary, self.handle_unknown), sequences.offsets

    def _predictor(self):
        return Predictor(self._output(), self._attention())

    def _predict_codes(self, codes, offsets):
        """Class code of the prediction for each sentence."""
        return self._predictor().predict(codes, offsets)

    def _dense(self, method, X, transform):
        """A number per sentence and class; `transform` makes it from logits."""
        codes, offsets = self._codes(X)
        shape = (len(offsets) - 1, len(self.classes_))
        check_memory(f"The result of {method}", shape, _INSTEAD)
        return self._predictor().dense(codes, offsets, transform, np.empty(shape))

    def predict(self, X):
        """Most probable next token of each sentence; of a tie the first in ``classes_``.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        Returns
        -------
        y : ndarray of shape (n_sentences,)
            Next tokens.
        """
        predicted = self._predict_codes(*self._codes(X))
        return self.classes_[predicted]

    def decision_function(self, X):
        """Logits z = sum_x phi_x W_ov[:, x].

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        Returns
        -------
        logits : ndarray of shape (n_sentences, n_classes) or (n_sentences,)
            With two classes z_1 - z_0, as scikit-learn expects.

        Raises
        ------
        MemoryError
            Before the work, if the result would not fit into the memory that is available (on Linux
            by the system's account, elsewhere 4 GB): see `predict` and `label_log_proba`.
        """
        logits = self._dense("decision_function", X, lambda logits: logits)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_log_proba(self, X):
        """Logarithm of the probabilities of the next token.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        Returns
        -------
        log_p : ndarray of shape (n_sentences, n_classes)
            In the order of ``classes_``.

        Raises
        ------
        MemoryError
            Before the work, if the result would not fit into the memory that is available (on Linux
            by the system's account, elsewhere 4 GB): see `predict` and `label_log_proba`.
        """
        return self._dense("predict_log_proba", X, log_softmax)

    def predict_proba(self, X):
        """Probabilities of the next token, softmax of the logits.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        Returns
        -------
        p : ndarray of shape (n_sentences, n_classes)
            In the order of ``classes_``; rows sum to 1.

        Raises
        ------
        MemoryError
            Before the work, if the result would not fit into the memory that is available (on Linux
            by the system's account, elsewhere 4 GB): see `predict` and `label_log_proba`.
        """
        return self._dense("predict_proba", X, softmax)

    def label_log_proba(self, X, y):
        """Log-probability of the given next token of each sentence.

        The same numbers as in `predict_log_proba`, without its n_sentences x n_classes others:
        for very many sentences or classes.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        y : array-like of shape (n_sentences,)
            Next tokens; one that is not in ``classes_`` has probability zero.

        Returns
        -------
        log_p : ndarray of shape (n_sentences,)
            At most 0; -inf for a next token that is not in ``classes_``.

        Examples
        --------
        >>> from sklntp import NTPTransformerClassifier
        >>> clf = NTPTransformerClassifier(max_iter=20).fit([["a"], ["b"]], ["b", "a"])
        >>> clf.label_log_proba([["a"], ["a"], ["b"]], ["b", "a", "z"]).round(3)
        array([-0.018, -4.018,   -inf])
        """
        codes, offsets = self._codes(X)
        labels = label_codes(read_labels(y, len(offsets) - 1), self.classes_)
        return self._predictor().label_log_proba(codes, offsets, labels)

    def attention(self, X):
        """Attention weights of the positions of each sentence.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        Returns
        -------
        weights : list of ndarray of shape (length of the sentence,)
            Each sums to 1; a token that occurs c times shares its phi_x among c positions.
        """
        codes, offsets = self._codes(X)
        return _per_sentence(position_attention(codes, offsets, self._attention()), offsets)

    def contributions(self, X):
        """What each position adds to the logit of the predicted class.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        Returns
        -------
        contributions : list of ndarray of shape (length of the sentence,)
            Attention times W_ov[predicted class, token]; each sums to the logit of that class.
        """
        codes, offsets = self._codes(X)
        label = np.repeat(self._predict_codes(codes, offsets), np.diff(offsets))
        votes = self._output().lookup(label, codes)
        phi = position_attention(codes, offsets, self._attention())
        return _per_sentence(phi * votes, offsets)


def _per_sentence(values, offsets):
    """A flat array as one array per sentence."""
    return np.split(values, offsets[1:-1]) if len(offsets) > 1 else []
