"""How well the directions of two matrices agree."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils import check_array

from sklntp._ngd import weighted_norm


class Alignment(NamedTuple):
    """How well two matrices agree in direction; what `alignment` returns.

    Attributes
    ----------
    cosine : float
        1 - dist^2 / 2, in [-1, 1]; NaN if a matrix is zero.
    dist : float
        ||W/||W|| - W*/||W*||||_F, in [0, 2]; NaN if a matrix is zero.
    """

    cosine: float
    dist: float


def alignment(W, reference):
    """Cosine and distance between the directions of two matrices.

    dist = ||W/||W|| - W*/||W*||||_F and cosine = 1 - dist^2 / 2, from the difference: exact near
    1, where an inner product is rounding error, and never above 1. It is the quantity of the
    convergence claims of [1]_, and what ``track_alignment=True`` records.

    Parameters
    ----------
    W : array-like or sparse matrix of shape (n_rows, n_columns)
        A matrix, for example ``clf.coef_kq_``. Its scale does not matter: entries of 1e200 and of
        1e-200 give the same result as entries of 1.
    reference : array-like or sparse matrix of shape (n_rows, n_columns)
        W*, for example ``clf.max_margin_coef_kq_``. If both are sparse, neither is made dense.

    Returns
    -------
    alignment : Alignment
        ``(cosine, dist)``; NaN if a matrix is zero: it has no direction.

    Raises
    ------
    ValueError
        If a matrix is not 2-D or not finite, or the shapes differ.

    References
    ----------
    .. [1] R. Huang, Y. Liang, J. Yang, "Non-asymptotic Convergence of Training Transformers for
       Next-token Prediction", NeurIPS 2024, arXiv:2409.17335.

    Examples
    --------
    >>> from sklntp.metrics import alignment
    >>> found = alignment([[3.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> round(found.cosine, 6), round(found.dist, 6)
    (0.707107, 0.765367)
    """
    W, reference = _matrix(W, "W"), _matrix(reference, "reference")
    if W.shape != reference.shape:
        raise ValueError(
            f"W and reference must have the same shape; got {W.shape} and {reference.shape}."
        )
    if not (issparse(W) and issparse(reference)):
        W, reference = (M.toarray() if issparse(M) else M for M in (W, reference))
    norms = [weighted_norm(_entries(M)) for M in (W, reference)]
    if 0.0 in norms:
        return Alignment(np.nan, np.nan)
    dist = min(weighted_norm(_entries(W / norms[0] - reference / norms[1])), 2.0)
    return Alignment(1.0 - 0.5 * dist**2, dist)


def _matrix(W, name):
    """A finite 2-D float64 array or csr_array whose largest entry is about 1."""
    if np.ndim(W) != 2:
        raise ValueError(f"{name} must be a matrix, 2-D; got {np.ndim(W)} dimension(s).")
    W = check_array(
        W,
        accept_sparse="csr",
        dtype=np.float64,
        ensure_min_samples=0,
        ensure_min_features=0,
        input_name=name,
        order="C",
        copy=True,
    )
    entries = _entries(W)  # a view: times a power of two, which rounds nothing
    np.ldexp(entries, -np.frexp(np.abs(entries).max(initial=0.0))[1], out=entries)
    if issparse(W):
        W = csr_array(W)
        W.sum_duplicates()
    return W


def _entries(M):
    """The stored entries, as a flat view."""
    return M.data if issparse(M) else M.reshape(-1)
