"""What a fitted estimator says of sentences: next tokens, probabilities, attention."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklntp._dataset import encode
from sklntp._explanation import explain_sentence
from sklntp._forward import position_attention
from sklntp._generation import check_count, generate, top_classes
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

    def _top_codes(self, codes, offsets, k):
        """Class codes and probabilities of the `k` most probable next tokens of each sentence."""
        shape = (len(offsets) - 1, min(k, len(self.classes_)))
        entry = np.dtype([("code", np.intp), ("p", np.float64)])
        check_memory("The result of top_k", (shape[0], 2 * shape[1]), "Give X in pieces.")

        def top(logits):
            # By the logits: many probabilities may underflow to zero.
            found = np.empty((len(logits), shape[1]), dtype=entry)
            found["code"] = top_classes(logits, k)
            found["p"] = np.take_along_axis(softmax(logits), found["code"], axis=1)
            return found

        found = self._predictor().dense(codes, offsets, top, np.empty(shape, dtype=entry))
        return found["code"], found["p"].copy()

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

    def top_k(self, X, k):
        """The most probable next tokens of each sentence, and their probabilities.

        Parameters
        ----------
        X : array-like of sequences
            Sentences, see `fit`.

        k : int
            How many next tokens, at least 1; all of them if there are fewer.

        Returns
        -------
        tokens : ndarray of shape (n_sentences, min(k, n_classes))
            Next tokens, the most probable first: that of `predict`. Equally probable ones are in
            the order of ``classes_``.
        probabilities : ndarray of shape (n_sentences, min(k, n_classes))
            Their probabilities, as in `predict_proba`.

        Examples
        --------
        >>> from sklntp import NTPTransformerClassifier
        >>> clf = NTPTransformerClassifier(max_iter=20).fit([["a"], ["b"], ["c"]], ["b", "c", "a"])
        >>> tokens, probabilities = clf.top_k([["a"], ["c"]], k=2)
        >>> tokens
        array([['b', 'a'],
               ['a', 'b']], dtype='<U1')
        >>> probabilities.round(3)
        array([[0.894, 0.053],
               [0.894, 0.053]])
        """
        k = check_count("k", k)
        codes, p = self._top_codes(*self._codes(X), k)
        return self.classes_[codes], p

    def generate(self, X, n_tokens, *, temperature=1.0, top_k=None, random_state=None):
        """Continue sentences token by token: the same as ``sklntp.generate(self, X, ...)``.

        Each next token is appended to its sentence and becomes the query there. For a classifier
        behind transformers, as in a pipeline, call :func:`sklntp.generate` on the whole pipeline.

        Parameters
        ----------
        X : array-like of sequences
            The prompts, see `fit`. Each has at least one token, known or not.

        n_tokens : int
            How many tokens to generate for each prompt, at least 1.

        temperature : float, default=1.0
            Draw a next token of probability p with probability proportional to
            p^(1 / temperature). 0: take that of `predict`.

        top_k : int, default=None
            Draw among the `top_k` most probable next tokens only, those of the method `top_k`.

        random_state : int, RandomState instance or None, default=None
            Seed of the draws.

        Returns
        -------
        tokens : ndarray of shape (n_prompts, n_tokens)
            Next tokens, all of ``classes_`` and of its dtype.

        Raises
        ------
        ValueError, TypeError
            See :func:`sklntp.generate`.

        Examples
        --------
        >>> from sklntp import NTPTransformerClassifier
        >>> X = [["a"], ["b"], ["c"], ["a", "b"], ["a", "b", "c"], ["b", "c", "a"]]
        >>> clf = NTPTransformerClassifier().fit(X, ["b", "c", "a", "c", "a", "b"])
        >>> clf.generate([["a"], ["c"]], 4, temperature=0)
        array([['b', 'c', 'a', 'b'],
               ['a', 'b', 'c', 'a']], dtype='<U1')
        """
        return generate(
            self, X, n_tokens, temperature=temperature, top_k=top_k, random_state=random_state
        )

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

    def explain(self, sentence):
        """Why one sentence gets its next token, position by position.

        Parameters
        ----------
        sentence : sequence of tokens
            One sentence: a list, tuple, 1-D array or Series of tokens.

        Returns
        -------
        explanation : Explanation
            A small table, one row per position: its token, its role under the query, its attention,
            the next token it votes for, and what it adds to the logit of the predicted one;
            ``print`` it, or ``to_frame()`` for pandas. Its attributes are the columns, and
            `query`, `predicted`, `probability`, `runner_up`, `runner_up_probability`.

        Raises
        ------
        ValueError, TypeError
            If it is no sentence, or several.

        Notes
        -----
        Roles are those of the training data, whatever was trained on them, see
        :func:`sklntp.structure.partial_orders`. A printed table shows the 30 positions of most
        attention.

        The last step of a pipeline explains what its transformers wrote:
        ``pipeline[-1].explain(pipeline[:-1].transform([sentence])[0])``.

        Examples
        --------
        >>> from sklntp import NTPTransformerClassifier
        >>> X = [["a"], ["b"], ["c"], ["a", "b"]]
        >>> clf = NTPTransformerClassifier().fit(X, ["b", "c", "a", "b"])
        >>> print(clf.explain(["c", "a", "b"]))
        next token b: probability 1; then a: 3.81e-62
        query b
        position  token  role            attention  votes for  contribution
               0  c      non-comparable     0.0000  a               +0.0000
               1  a      optimal            1.0000  b              +94.2809
               2  b      non-optimal        0.0000  c               +0.0000
        contributions add up to the logit of b: +94.2809
        """
        return explain_sentence(self, sentence)


def _per_sentence(values, offsets):
    """A flat array as one array per sentence."""
    return np.split(values, offsets[1:-1]) if len(offsets) > 1 else []
