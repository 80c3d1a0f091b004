"""Next tokens and sample weights: validated, opaque, with the sentence named where one is wrong."""

import math
import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sklntp._coding import lookup
from sklntp._sequences import short, token_array

_COUNTS = 64  # binary exponents of a largest weight that may be a count


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
    is_list = isinstance(values, list)
    if not is_list and values.ndim == 0:
        raise TypeError(f"y must be a list or array of next tokens; got {type(y).__name__}.")
    if is_list or (values.dtype.kind in "OfmM" and values[:1].size <= 1):
        if set(map(type, values)) not in ({str}, {int}):
            _check_labels(values)
        values = _plain_array(values)
    values = column_or_1d(values, warn=True)
    if len(values) != n_sentences:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"{n_sentences} sentences in X, {len(values)} next tokens in y."
        )
    if values.dtype.kind not in "Uiu":  # str and int are class labels always
        with warnings.catch_warnings():
            # Many distinct next tokens are the normal case here, not a regression target.
            warnings.filterwarnings("ignore", message=".*unique classes is greater than 50%")
            check_classification_targets(values)
    return values


def _check_labels(values):
    """Raise for the first next token that is missing, no scalar, or of another type."""
    first = {}
    for i, label in enumerate(values):
        if np.ndim(label):
            if np.size(label) != 1:
                raise ValueError(f"y[{i}] must be one next token; got {short(label)}.")
            label = np.ravel(label)[0]  # a column
        if _is_missing(label):
            raise ValueError(
                f"Input y contains NaN or the like: y[{i}], the next token of sentence {i}, "
                f"is missing: {label!r}."
            )
        if isinstance(label, (dict, set, frozenset, bytes)):
            raise TypeError(f"y[{i}] must be a str or a number; got {type(label).__name__}.")
        if isinstance(label, float) and not math.isfinite(label):
            raise ValueError(f"Input y contains infinity: y[{i}].")
        is_bool = isinstance(label, (bool, np.bool_))
        kind = "bool" if is_bool else "str" if isinstance(label, str) else "number"
        first.setdefault(kind, (i, label))
        if len(first) == 2:
            (i, one), (j, other) = first.values()
            raise TypeError(
                f"Next tokens must be of one type: y[{i}] is {type(one).__name__} {short(one)}, "
                f"but y[{j}] is {type(other).__name__} {short(other)}."
            )


def _is_missing(value):
    """None, NaN, NaT or pandas.NA: what does not equal itself, or has no truth value for it."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True
    except ValueError:  # an array: column_or_1d has the better message
        return False


def _plain_array(values):
    """Labels as an array of one kind that changes none; an object array of str stays the user's."""
    if isinstance(values, np.ndarray):
        if values.dtype != object or any(isinstance(v, str) for v in values.ravel()):
            return values
        values = values.tolist()
    if not values:
        return np.empty(0, dtype=np.int64)
    if isinstance(values[0], str):
        return token_array(values)
    array = np.asarray(values)
    plain = [v.tolist() if isinstance(v, np.ndarray) else v for v in values]
    ints = all(isinstance(v, Integral) for v in plain)
    if array.tolist() != plain or (ints and array.dtype.kind not in "iub"):
        raise ValueError(
            "Next tokens that are numbers must fit into one numpy dtype without changing; these "
            "need more than 64 bits. Use str."
        )
    return array


def label_codes(y, classes):
    """Index in `classes` of each next token, an array of labels; n_classes for one not there.

    Raises
    ------
    TypeError
        If the labels are str and the classes are not, or the other way round.
    """
    if y.dtype.kind == classes.dtype.kind and y.dtype.kind in "mM":  # perhaps of another unit
        y, classes = (a.astype(np.promote_types(y.dtype, classes.dtype)) for a in (y, classes))
    classes, labels = classes.tolist(), y.tolist()
    if labels and isinstance(labels[0], str) != isinstance(classes[0], str):
        raise TypeError(
            f"y must be of the type of classes_: y[0] is {type(labels[0]).__name__} "
            f"{short(labels[0])}, but classes_[0] is {type(classes[0]).__name__} "
            f"{short(classes[0])}."
        )
    return lookup(labels, classes)


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
    values = sample_weight
    if not isinstance(values, (list, tuple)):
        values = np.asarray(values)
        values = values.ravel().tolist() if values.dtype.kind not in "fiub" else []
    if not set(map(type, values)) <= {int, float}:
        for i, value in enumerate(values):
            if not isinstance(value, Real):
                raise ValueError(
                    f"sample_weight must hold numbers; sample_weight[{i}] is "
                    f"{type(value).__name__} {short(value)}."
                )
    try:
        weight = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
        )
    except OverflowError:
        raise ValueError("sample_weight holds a number beyond the range of float64.") from None
    if weight.shape != (n_sentences,):
        raise ValueError(
            f"sample_weight must have shape ({n_sentences},), one weight per sentence; "
            f"got {weight.shape}."
        )
    if weight.min() < 0:
        i = int(np.argmin(weight))
        raise ValueError(f"sample_weight must not be negative; sample_weight[{i}] is {weight[i]}.")
    largest = weight.max()
    if largest == 0:
        raise ValueError("sample_weight is zero for every sentence: no weight is left to fit.")
    zeros = np.count_nonzero(weight == 0)
    # Counts keep their size, which smoothing and the penalty need. Of weights so large or so small
    # that they are none only ratios count: a power of two changes no bit, and keeps sums in range.
    exponent = math.frexp(largest)[1]
    if abs(exponent) > _COUNTS:
        weight = np.ldexp(weight, -exponent)
    if ((weight > 0) & (weight < 1e-150 * weight.max())).any() or (weight == 0).sum() > zeros:
        raise ValueError(
            "sample_weight spans too wide a range: the smallest weight that is not "
            "zero must be at least 1e-150 of the largest."
        )
    return weight
