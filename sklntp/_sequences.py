"""Input forms: whatever holds sequences of tokens -> integer codes and offsets.

Accepted as X: a list, tuple, 1-D object array, Series or Arrow array of sequences (ragged), an
(n, 1) object array or one-column DataFrame whose cells are sequences (ragged), and a 2-D array or
DataFrame (a table: each row a sentence, each distinct value a token). Tokens are all str or all
numbers.
"""

from dataclasses import dataclass, field, replace
from itertools import chain
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from sklntp._coding import code_ints, code_objects
from sklntp._columns import int_columns, read_column
from sklntp._rows import check_tokens, plain_rows, plain_token, read_rows, row_lengths, short

_WIDE = 1 << 22  # characters of an array of str that are never too many
_SHOWN = 5  # how many offending tokens or sentences a message names


@dataclass(frozen=True)
class Sequences:
    """Sentences as codes: sentence i is ``tokens[codes[offsets[i]:offsets[i + 1]]]``."""

    tokens: list  # the distinct tokens, sorted, Python str, int or float
    codes: np.ndarray  # (n_positions,) int32
    offsets: np.ndarray  # (n_sentences + 1,) intp
    features: dict = field(default_factory=dict)  # n_features_in_, feature_names_in_ for the fit

    def __len__(self):
        return len(self.offsets) - 1

    @property
    def lengths(self):
        """Number of positions of each sentence, (n_sentences,)."""
        return np.diff(self.offsets)

    def select(self, kept):
        """The sentences where `kept` is true; distinct tokens that no longer occur are dropped."""
        used, codes = code_ints(self.codes[np.repeat(kept, self.lengths)])
        tokens = [self.tokens[k] for k in used]
        return replace(self, tokens=tokens, codes=codes, offsets=_offsets(self.lengths[kept]))


def _offsets(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)


def flat_ranges(starts, lengths):
    """The concatenation of arange(start, start + length) over all pairs, without a loop."""
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


def show(items):
    """The first few of `items` and how many more there are, for a message."""
    items = list(items)
    shown = ", ".join(short(item) for item in items[:_SHOWN])
    return shown if len(items) <= _SHOWN else f"{shown} and {len(items) - _SHOWN} more"


def read_sequences(estimator, X, *, reset):
    """Read X in any accepted form.

    Parameters
    ----------
    estimator : estimator or None
        Whose ``n_features_in_`` and ``feature_names_in_`` a table must match, without `reset`; it
        is not changed. None for the functions that have no estimator.
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
        Naming the sentence and position of what is not a token; with `reset`, if there is none.
    """
    sequences = _read(estimator, X, reset)
    if reset and not len(sequences):
        raise ValueError("Found array with 0 sample(s): at least one sentence is required.")
    return sequences


def _read(estimator, X, reset):
    column = read_column(X)
    if column is None and (rows := ragged_rows(X)) is not None:
        column = read_rows(rows)
    if column is not None:
        sequences, lengths = _assemble(*column), column[-1]
        same = len(lengths) and lengths.min() == lengths.max()
        return replace(sequences, features={"n_features_in_": int(lengths[0])} if same else {})
    # Cell by cell where one dtype for all, which scikit-learn looks for, would change tokens.
    by_cell = hasattr(X, "columns") or (
        isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == object
    )
    features = {}
    if estimator is None:
        table = X if by_cell else check_array(X, dtype=None)
    elif reset:
        probe = clone(estimator)
        table = validate_data(probe, X, dtype=None, skip_check_array=by_cell)
        names = ("n_features_in_", "feature_names_in_")
        features = {name: getattr(probe, name) for name in names if hasattr(probe, name)}
    else:
        # An array or table of another width is refused here; lists are not (they are ragged).
        table = validate_data(estimator, X, dtype=None, reset=False, skip_check_array=by_cell)
    return replace(_read_table(table), features=features)


def store_features(estimator, features):
    """Set what `read_sequences` found of a table's columns, in place of that of an earlier fit."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            delattr(estimator, name)
    for name, value in features.items():
        setattr(estimator, name, value)


def _is_sequence(cell):
    """Whether one cell of X can be a sentence: sized, ordered, and not a string or a mapping."""
    if isinstance(cell, np.ndarray):
        return cell.ndim == 1
    return (
        hasattr(cell, "__len__")
        and hasattr(cell, "__iter__")
        and not hasattr(cell, "columns")
        and not isinstance(cell, (str, bytes, bytearray, dict, set, frozenset))
    )


def ragged_rows(X):
    """The sentences of X as a list where X is a collection of sequences, else None (a table)."""
    if isinstance(X, (str, bytes)):
        raise ValueError(
            "X must be a collection of sentences, each split into tokens; "
            f"got one string, {short(X)}."
        )
    if sparse.issparse(X):
        return None
    if hasattr(X, "columns") and hasattr(X, "shape"):  # pandas or polars DataFrame
        if X.shape[1] != 1:
            return None
        cells = [row[0] for row in table_rows(X)]
    elif isinstance(X, np.ndarray):
        if X.dtype != object or X.ndim > 2 or (X.ndim == 2 and X.shape[1] != 1):
            if X.ndim == 1 and X.dtype.kind in "US" and len(X):
                _refuse_strings(0, X[0])
            return None
        if X.shape == (0,):
            return []
        cells = X.ravel().tolist() if X.ndim else []
    elif isinstance(X, (list, tuple)) or hasattr(X, "to_list"):  # to_list: pandas, polars Series
        cells = X.to_list() if hasattr(X, "to_list") else list(X)
        if not cells:
            return cells
    elif hasattr(X, "to_pylist"):  # Arrow
        return ragged_rows(X.to_pylist())
    elif hasattr(X, "__array__") and not isinstance(X, np.generic):
        return ragged_rows(np.asarray(X))
    else:
        raise TypeError(
            "X must be a list, array, Series, DataFrame or Arrow array of sentences; "
            f"got {type(X).__name__}. Turn it into a list first."
        )
    kinds = set(map(type, cells))
    if kinds <= {list, tuple} or (kinds == {np.ndarray} and {cell.ndim for cell in cells} == {1}):
        return cells
    is_sequence = [_is_sequence(cell) for cell in cells]
    if not any(is_sequence):
        is_table = hasattr(X, "columns") or (isinstance(X, np.ndarray) and X.ndim == 2)
        if is_table or all(isinstance(cell, (Real, np.generic, np.ndarray)) for cell in cells):
            return None  # for scikit-learn's checks and messages
    if not all(is_sequence):
        where = is_sequence.index(False)
        if isinstance(cells[where], (str, bytes)):
            _refuse_strings(where, cells[where])
        raise TypeError(
            f"Sentence {where} must be a sequence of tokens; "
            f"got {type(cells[where]).__name__} {short(cells[where])}."
        )
    return cells


def _refuse_strings(where, text):
    raise ValueError(
        f"Sentence {where} must be split into tokens, a sequence of str or int; got the string "
        f"{short(text)}. For words use text.split(), for letters list(text)."
    )


def table_rows(table):
    """The rows of a 2-D array or DataFrame as lists or tuples of its own cells."""
    if hasattr(table, "rows"):  # polars
        return table.rows()
    if hasattr(table, "iloc"):  # pandas, column by column: one dtype for all may change ints
        columns = [table.iloc[:, k].tolist() for k in range(table.shape[1])]
        return list(zip(*columns, strict=True)) if columns else [()] * len(table)
    return np.asarray(table).tolist()


def flatten(rows):
    """All tokens of the rows, plain str or int, in one list, and the lengths of the rows.

    Raises
    ------
    TypeError
        Naming the sentence and position of a token that is neither, or of another type.
    """
    rows = plain_rows(rows)
    lengths = row_lengths(rows)
    flat = list(chain.from_iterable(rows))
    kinds = set(map(type, flat))
    if not (kinds <= {str} or kinds <= {int}):
        check_tokens(rows, floats=False)
        flat = list(map(plain_token, flat))
    return flat, lengths


def _assemble(tokens, codes, lengths):
    """Distinct tokens, codes and lengths -> Sequences."""
    if not lengths.all():
        raise ValueError(
            f"Sentence {int(np.argmin(lengths))} is empty; every sentence needs at least one token."
        )
    return Sequences(tokens, codes, _offsets(lengths))


def _read_table(table):
    """A 2-D array or DataFrame -> Sequences: each row a sentence, each distinct value a token."""
    if not isinstance(table, np.ndarray):
        table = int_columns(table)
    if isinstance(table, np.ndarray):
        lengths = np.full(len(table), table.shape[1], dtype=np.intp)
        if table.dtype.kind in "iu":
            return _assemble(*code_ints(table), lengths)
        if table.dtype.kind == "f":
            tokens, codes = np.unique(table.ravel(), return_inverse=True)
            return _assemble(tokens.tolist(), codes.ravel().astype(np.int32), lengths)
        if table.dtype.kind == "U":
            tokens = chain.from_iterable(map(np.ndarray.tolist, table))
            return _assemble(*code_objects(tokens, table.size), lengths)
    return _assemble(*read_rows(table_rows(table), floats=True))


def token_array(tokens):
    """Tokens as an array: int64, float64 or str; object where these would change a token.

    Object too where a few long tokens would make an array of fixed width large.
    """
    if not tokens:
        return np.array(tokens, dtype=object)
    if isinstance(tokens[0], str):
        longest, size = max(map(len, tokens)), sum(map(len, tokens))
        if longest * len(tokens) > max(_WIDE, 8 * size):  # every cell as wide as one long token
            return np.array(tokens, dtype=object)
    array = np.array(tokens)  # drops NUL characters at the end of a str
    return array if array.tolist() == tokens else np.array(tokens, dtype=object)
