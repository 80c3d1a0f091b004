"""What a fitted estimator shows of its matrices: dense, sparse, embedded, and their references."""

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_array, check_is_fitted

from sklntp._forward import AttentionWeights, OutputWeights
from sklntp._max_margin import MaxMarginError, solve_kq, solve_ov
from sklntp._orders import Orders
from sklntp._partial_order import partial_order

_DENSE_LIMIT = 100e6  # bytes of a coefficient matrix that an attribute builds on access
_TIME_LIMIT = 5.0  # estimated seconds of a reference that an attribute solves on access
_ORTHONORMAL = 1e-6  # on the rows of an embedding
_LARGEST_EMBEDDED = 1e9  # bytes of W_kq in its coordinates


class FittedMatrices:
    """Attributes of `NTPTransformerClassifier` that are built on access, from sparse arrays."""

    def _output(self):
        return OutputWeights(
            self._ov_offsets, self._ov_classes, self._ov_value, self.base_ov_, len(self.classes_)
        )

    def _attention(self):
        return AttentionWeights(self._kq_key, self._kq_value, self.base_kq_)

    @property
    def _orders(self):
        """The pairs of the training data, that the reference of W_kq needs."""
        return Orders(self._order_key, len(self.vocabulary_))

    def _partial_order(self, query):
        """The order of the training data under one query, given as its code."""
        return partial_order(self._orders, query, self.vocabulary_.tolist())

    def _check_dense(self, n_rows, twin):
        """Refuse to build a matrix of more than 100 MB on access."""
        size = 8 * n_rows * len(self.vocabulary_)
        if size > _DENSE_LIMIT:
            # scikit-learn's HTML repr reads every property and survives only AttributeError.
            raise AttributeError(
                f"The dense matrix of shape ({n_rows}, {len(self.vocabulary_)}) would take "
                f"{size / 1e6:.0f} MB; use {twin}."
            )

    @property
    def coef_ov_(self):
        """W_ov[class, token], ndarray of shape (n_classes, n_tokens)."""
        check_is_fitted(self)
        self._check_dense(len(self.classes_), "sparse_coef_ov_ and base_ov_")
        return self._output().dense()

    @property
    def coef_kq_(self):
        """W_kq[key token, query token], ndarray of shape (n_tokens, n_tokens)."""
        check_is_fitted(self)
        self._check_dense(len(self.vocabulary_), "sparse_coef_kq_ and base_kq_")
        return self.sparse_coef_kq_.toarray() + self.base_kq_[:, None]

    @property
    def sparse_coef_ov_(self):
        """W_ov minus base_ov_, csr_array of shape (n_classes, n_tokens)."""
        check_is_fitted(self)
        return csr_array(self._output().excess().T)

    @property
    def sparse_coef_kq_(self):
        """W_kq minus base_kq_, csr_array of shape (n_tokens, n_tokens)."""
        check_is_fitted(self)
        n_tokens = len(self.vocabulary_)
        query, token = np.divmod(self._kq_key, n_tokens)
        value = self._kq_value - self.base_kq_[token]
        return csr_array((value, (token, query)), shape=(n_tokens, n_tokens))

    def coef_in_embedding(self, E):
        """Both matrices in the coordinates of an orthonormal embedding, as in the paper.

        With token x embedded as row e_x of E, W_ov becomes ``W_ov E`` and W_kq ``E^T W_kq E``, so
        that a score is e_x^T W_kq e_q. Norms, scores and predictions stay the same, and so does
        training: gradient descent from zero in these coordinates gives these matrices.

        Parameters
        ----------
        E : array-like of shape (n_tokens, d)
            Embedding, one row per token in the order of ``vocabulary_``; rows are orthonormal to
            1e-6, hence d >= n_tokens.

        Returns
        -------
        W_ov : ndarray of shape (n_classes, d)
        W_kq : ndarray of shape (d, d)

        Raises
        ------
        ValueError
            If E has another number of rows or is not orthonormal, with its largest deviation, or
            if W_kq would take more than 1 GB.

        Examples
        --------
        >>> import numpy as np
        >>> from sklntp import NTPTransformerClassifier
        >>> clf = NTPTransformerClassifier(max_iter=5).fit([["a"], ["b"]], ["b", "a"])
        >>> W_ov, W_kq = clf.coef_in_embedding([[0.6, 0.8, 0], [-0.8, 0.6, 0]])
        >>> W_ov.round(3)
        array([[-0.7, -0.1,  0. ],
               [ 0.7,  0.1,  0. ]])
        """
        check_is_fitted(self)
        with np.errstate(invalid="ignore", over="ignore"):  # of entries that are refused
            E = check_array(E, dtype=float, input_name="E")
            n_tokens = len(self.vocabulary_)
            if len(E) != n_tokens:
                raise ValueError(f"E must have one row per token, {n_tokens}; got shape {E.shape}.")
            size = 8 * E.shape[1] ** 2
            if size > _LARGEST_EMBEDDED:
                raise ValueError(
                    f"In {E.shape[1]} dimensions W_kq would take {size / 1e9:.1f} GB, at most "
                    f"{_LARGEST_EMBEDDED / 1e9:.0f} GB are supported."
                )
            deviation = np.abs(E @ E.T - np.eye(n_tokens))
            deviation[np.isnan(deviation)] = np.inf
        if deviation.max() > _ORTHONORMAL:
            x, u = np.unravel_index(np.argmax(deviation), deviation.shape)
            raise ValueError(
                "The rows of E must be orthonormal: E @ E.T is the identity matrix. It deviates "
                f"by {deviation[x, u]:.3g} at tokens {self.vocabulary_[x]!s}, "
                f"{self.vocabulary_[u]!s}, its largest deviation."
            )
        W_ov = self.sparse_coef_ov_ @ E + self.base_ov_ @ E
        return W_ov, E.T @ (self.sparse_coef_kq_ @ E + np.outer(self.base_kq_, E.sum(axis=0)))

    @property
    def collocation_(self):
        """token -> next token -> share of its weight."""
        check_is_fitted(self)
        tokens = self.vocabulary_[self._pairs["token"]].tolist()
        classes = self.classes_[self._pairs["class"]].tolist()
        found = {}
        for token, label, share in zip(tokens, classes, self._pairs["share"].tolist(), strict=True):
            found.setdefault(token, {})[label] = share
        return found

    @property
    def max_margin_coef_ov_(self):
        """The max-margin reference of W_ov, ndarray of shape (n_classes, n_tokens)."""
        check_is_fitted(self)
        self._check_dense(len(self.classes_), "structure.max_margin_ov")
        token, label = self._pairs["token"], self._pairs["class"]
        solution = solve_ov(token, label, len(self.classes_))
        coef = np.tile(solution.base(len(self.vocabulary_)), (len(self.classes_), 1))
        coef[label, token] = solution.label_value
        return coef

    @property
    def max_margin_coef_kq_(self):
        """The max-margin reference of W_kq, ndarray of shape (n_tokens, n_tokens)."""
        check_is_fitted(self)
        n_tokens = len(self.vocabulary_)
        self._check_dense(n_tokens, "structure.max_margin_kq")
        if self._max_margin_kq is None:
            pairs = self._orders
            try:
                self._max_margin_kq = solve_kq(
                    pairs.query, pairs.above, pairs.below, fixed=n_tokens, time_limit=_TIME_LIMIT
                )
            except MaxMarginError as error:
                raise AttributeError(f"{error} Use structure.max_margin_kq.") from error
        coef = np.zeros((n_tokens, n_tokens))
        coef[self._max_margin_kq.token, self._max_margin_kq.query] = self._max_margin_kq.value
        return coef
