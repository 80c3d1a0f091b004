"""Input forms: whatever holds sequences of tokens -> integer codes and offsets.

Accepted as X: a list, tuple, 1-D object array or Series of sequences (ragged), an (n, 1) object
array or one-column DataFrame whose cells are sequences (ragged), and a 2-D array or DataFrame (a
table: each row a sentence, each distinct value a token). Tokens are all str or all numbers.
"""

import reprlib
import warnings
from dataclasses import dataclass
from itertools import chain
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

_SHOWN = 5  # how many offending tokens or sentences a message names


@dataclass(frozen=True)
class Sequences:
    """Sentences as codes: sentence i is ``tokens[codes[offsets[i]:offsets[i + 1]]]``."""

    tokens: list  # the distinct tokens, sorted, Python str, int or float
    codes: np.ndarray  # (n_positions,) intp
    offsets: np.ndarray  # (n_sentences + 1,) intp

    def __len__(self):
        return len(self.offsets) - 1

    @property
    def lengths(self):
        """Number of positions of each sentence, (n_sentences,)."""
        return np.diff(self.offsets)

    def take(self, rows):
        """The chosen sentences; distinct tokens that no longer occur are dropped."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
        positions = flat_ranges(self.offsets[:-1][rows], lengths)
        kept, codes = np.unique(self.codes[positions], return_inverse=True)
        return Sequences([self.tokens[k] for k in kept], codes, offsets)


def flat_ranges(starts, lengths):
    """The concatenation of arange(start, start + length) over all pairs, without a loop."""
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


def show(items):
    """The first few of `items` and how many more there are, for a message."""
    items = list(items)
    shown = ", ".join(reprlib.repr(item) for item in items[:_SHOWN])
    return shown if len(items) <= _SHOWN else f"{shown} and {len(items) - _SHOWN} more"


def read_sequences(estimator, X, *, reset):
    """Read X in any accepted form.

    Parameters
    ----------
    estimator : estimator or None
        Its ``n_features_in_`` and ``feature_names_in_`` are set (`reset`) or, for tables, checked;
        None for the functions that have no estimator.
    X : array-like
        See the module's first lines.
    reset : bool
        Whether this is ``fit``.

    Returns
    -------
    Sequences

    Raises
    ------
    TypeError, ValueError
        Naming the sentence and position of what is not a token.
    """
    if estimator is not None and reset:
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                delattr(estimator, name)
    rows = _ragged_rows(X)
    if rows is not None:
        sequences = _read_ragged(rows)
        if sequences is not None:
            lengths = np.unique(sequences.lengths)
            if estimator is not None and reset and len(lengths) == 1:
                estimator.n_features_in_ = int(lengths[0])
            return sequences
    if estimator is None:
        table = check_array(X, dtype=None)
    else:
        # An array or table of another width is refused here; lists are not (they are ragged).
        table = validate_data(estimator, X, dtype=None, reset=reset)
    return _read_table(table)


def _is_sequence(cell):
    """Whether one cell of X can be a sentence: sized, ordered, and not a string or a mapping."""
    if isinstance(cell, np.ndarray):
        return cell.ndim >= 1
    return (
        hasattr(cell, "__len__")
        and hasattr(cell, "__iter__")
        and not isinstance(cell, (str, bytes, bytearray, dict, set, frozenset))
    )


def _ragged_rows(X):
    """The sentences of X as a list where X is a collection of sequences, else None (a table)."""
    if isinstance(X, (str, bytes)):
        raise ValueError(
            f"X must be a collection of sentences, each split into tokens; got one string {_r(X)}."
        )
    if sparse.issparse(X):
        return None
    if hasattr(X, "columns") and hasattr(X, "shape"):  # pandas or polars DataFrame
        if X.shape[1] != 1:
            return None
        cells = np.asarray(X, dtype=object).ravel().tolist()
    elif isinstance(X, np.ndarray):
        if X.dtype != object or X.ndim > 2 or (X.ndim == 2 and X.shape[1] != 1):
            if X.ndim == 1 and X.dtype.kind in "US" and len(X):
                _refuse_strings(0, X[0])
            return None
        cells = X.ravel().tolist() if X.ndim else []
    elif isinstance(X, (list, tuple)) or hasattr(X, "to_list"):  # to_list: pandas, polars Series
        cells = X.to_list() if hasattr(X, "to_list") else list(X)
        if not cells:
            return cells
    elif X is None or isinstance(X, Real):
        return None
    elif hasattr(X, "__array__"):
        return _ragged_rows(np.asarray(X))
    else:
        raise TypeError(
            "X must be a list, array, Series or DataFrame of sentences; "
            f"got {type(X).__name__}. Turn it into a list first."
        )
    is_sequence = [_is_sequence(cell) for cell in cells]
    if not any(is_sequence):
        is_table = hasattr(X, "columns") or (isinstance(X, np.ndarray) and X.ndim == 2)
        if cells and not is_table and isinstance(cells[0], (str, bytes)):
            _refuse_strings(0, cells[0])
        return None
    if not all(is_sequence):
        where = is_sequence.index(False)
        if isinstance(cells[where], (str, bytes)):
            _refuse_strings(where, cells[where])
        raise TypeError(
            f"Sentence {where} must be a sequence of tokens; "
            f"got {type(cells[where]).__name__} {_r(cells[where])}."
        )
    return cells


def _r(value):
    """A short repr for messages; numpy scalars as the plain numbers they are."""
    return reprlib.repr(value.item() if isinstance(value, np.generic) else value)


def _refuse_strings(where, text):
    raise ValueError(
        f"Sentence {where} must be split into tokens, a sequence of str or int; got the string "
        f"{_r(text)}. For words use text.split(), for letters list(text)."
    )


def _read_ragged(rows):
    """Rows of str or int tokens -> Sequences; None where the rows are a table of floats."""
    rows = [row.tolist() if isinstance(row, np.ndarray) else list(row) for row in rows]
    lengths = np.fromiter(map(len, rows), dtype=np.intp, count=len(rows))
    flat = list(chain.from_iterable(rows))
    kinds = set(map(type, flat))
    if not (kinds <= {str} or kinds <= {int}):
        if _is_float_table(rows, kinds):
            return None
        _check_tokens(rows)
        flat = [str(t) if isinstance(t, str) else int(t) for t in flat]
    if not lengths.all():
        raise ValueError(
            f"Sentence {int(np.argmin(lengths))} is empty; every sentence needs at least one token."
        )
    tokens = sorted(set(flat))
    index = {token: code for code, token in enumerate(tokens)}
    codes = np.fromiter(map(index.__getitem__, flat), dtype=np.intp, count=len(flat))
    return Sequences(tokens, codes, np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp))


def _is_float_table(rows, kinds):
    """Rows of equal length, all numbers and at least one of them not an integer."""
    return (
        len({len(row) for row in rows}) == 1
        and all(issubclass(k, (Real, np.number)) and k not in (bool, np.bool_) for k in kinds)
        and not all(issubclass(k, Integral) for k in kinds)
    )


def _check_tokens(rows):
    """Raise for the first token that is neither str nor int, or of another type than the first."""
    first = None
    for i, row in enumerate(rows):
        for j, token in enumerate(row):
            if isinstance(token, str):
                kind = "str"
            elif isinstance(token, Integral) and not isinstance(token, (bool, np.bool_)):
                kind = "int"
            else:
                # scikit-learn's checks look for this wording when an element is a dict.
                raise TypeError(
                    f"Sentence {i}, position {j}: a token must be a str or an int; got "
                    f"{type(token).__name__} {_r(token)} "
                    "(argument must be a string or a number)."
                )
            first = first or (kind, i, j)
            if kind != first[0]:
                raise TypeError(
                    f"Tokens must be all str or all int: sentence {first[1]}, position {first[2]} "
                    f"holds {first[0]} {_r(rows[first[1]][first[2]])}, but sentence {i}, "
                    f"position {j} holds {kind} {_r(token)}."
                )


def _read_table(table):
    """A checked 2-D array -> Sequences: each row a sentence, each distinct value a token."""
    n, width = table.shape
    if table.dtype.kind in "US":
        table = table.astype(object)
    if table.dtype == object:
        rows = table.tolist()
        floats = {float, np.float16, np.float32, np.float64}
        if not all(issubclass(k, Real) for k in set(map(type, chain(*rows))) - floats):
            _check_tokens(rows)
            return _read_ragged(rows)
        table = table.astype(np.float64)
    if table.dtype == bool:
        raise TypeError("Tokens must be str or numbers; got a table of bool.")
    tokens, codes = np.unique(table.ravel(), return_inverse=True)
    return Sequences(tokens.tolist(), codes.ravel(), np.arange(n + 1, dtype=np.intp) * width)


def read_labels(y, n_sentences):
    """Next tokens as a 1-D array, opaque but all of one kind.

    Parameters
    ----------
    y : array-like of shape (n_sentences,)
        One next token per sentence: str, int, or whatever scikit-learn takes as class labels.
    n_sentences : int

    Returns
    -------
    ndarray of shape (n_sentences,)

    Raises
    ------
    TypeError, ValueError
        Naming the sentence whose next token is missing or of another type, or both lengths.
    """
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None.")
    values = list(y) if isinstance(y, (list, tuple)) else np.asarray(y)
    if isinstance(values, list) or values.dtype == object:
        kinds = {}
        for i, label in enumerate(values):
            if _is_missing(label):
                raise ValueError(f"y[{i}], the next token of sentence {i}, is missing: {label!r}.")
            if isinstance(label, (dict, set)):
                raise TypeError(f"y[{i}] must be a str or a number; got {type(label).__name__}.")
            kinds.setdefault(isinstance(label, str), i)
        if len(kinds) == 2:
            i, j = sorted(kinds.values())
            raise TypeError(
                f"Next tokens must be of one type: y[{i}] is {type(values[i]).__name__} "
                f"{_r(values[i])}, but y[{j}] is {type(values[j]).__name__} {_r(values[j])}."
            )
        values = _plain_array(values)
    values = column_or_1d(values, warn=True)
    if len(values) != n_sentences:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"{n_sentences} sentences in X, {len(values)} next tokens in y."
        )
    if values.dtype.kind in "fc":
        check_array(values, ensure_2d=False, dtype=None, input_name="y")
    with warnings.catch_warnings():
        # Many distinct next tokens are the normal case here, not a regression target.
        warnings.filterwarnings("ignore", message=".*unique classes is greater than 50%")
        check_classification_targets(values)
    return values


def _is_missing(value):
    """None, NaN, NaT or pandas.NA: what does not equal itself, or has no truth value for it."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True
    except ValueError:  # an array: column_or_1d has the better message
        return False


def _plain_array(values):
    """Labels as an array: ints as int64, str kept whole (a '<U' array cuts trailing NULs)."""
    if any(isinstance(v, str) for v in values):
        if isinstance(values, np.ndarray):
            return values
        if any(v.endswith("\0") for v in values):
            return np.array(values, dtype=object)
    return np.asarray(values.tolist() if isinstance(values, np.ndarray) else values)


def read_weights(sample_weight, n_sentences):
    """Sample weights as float64, or ones.

    Raises
    ------
    ValueError
        Naming sample_weight, if it is not one finite, non-negative number per sentence, or all
        are zero.
    """
    if sample_weight is None:
        return np.ones(n_sentences)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_sentences, sample_weight)
    weight = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weight.shape != (n_sentences,):
        raise ValueError(
            f"sample_weight must have shape ({n_sentences},), one weight per sentence; "
            f"got {weight.shape}."
        )
    if weight.min() < 0:
        i = int(np.argmin(weight))
        raise ValueError(f"sample_weight must not be negative; sample_weight[{i}] is {weight[i]}.")
    if not weight.any():
        raise ValueError("sample_weight is zero for every sentence: no weight is left to fit.")
    return weight
