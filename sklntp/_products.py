"""Products of a sparse and a dense matrix, added to an array that exists.

SciPy's operator @ allocates its result, which several threads at once wait for: with two threads it
takes more than twice as long. The routines behind it do not, but they are private to SciPy; where a
release should lack them, the operator takes their place.
"""

from scipy.sparse import csc_array, csr_array

try:
    from scipy.sparse._sparsetools import csc_matvecs, csr_matvecs
except ImportError:
    csc_matvecs = csr_matvecs = None


def add_csc_product(shape, indptr, indices, data, dense, out):
    """out += A @ dense for A of the given shape in the csc format.

    Parameters
    ----------
    shape : tuple of int
        (n_rows, n_inner)
    indptr, indices : ndarray of int32
    data : ndarray of float
    dense : ndarray of float
        C-contiguous, of size n_inner * n_columns.
    out : ndarray of float
        C-contiguous, of size n_rows * n_columns.
    """
    _add(csc_matvecs, csc_array, shape, indptr, indices, data, dense, out)


def add_csr_product(shape, indptr, indices, data, dense, out):
    """As `add_csc_product` for A in the csr format."""
    _add(csr_matvecs, csr_array, shape, indptr, indices, data, dense, out)


def _add(routine, kind, shape, indptr, indices, data, dense, out):
    n_columns = out.size // shape[0]
    if routine is not None:
        routine(*shape, n_columns, indptr, indices, data, dense.reshape(-1), out.reshape(-1))
    else:
        matrix = kind((data, indices, indptr), shape=shape)
        out.reshape(shape[0], n_columns)[...] += matrix @ dense.reshape(shape[1], n_columns)
