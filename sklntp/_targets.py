"""Next tokens and sample weights: validated, opaque, with the sentence named where one is wrong."""

import warnings
from numbers import Real

import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sklntp._sequences import short, token_array


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
            if np.ndim(label) and len(label) != 1:
                raise ValueError(f"y[{i}] must be one next token; got {short(label)}.")
            kinds.setdefault(isinstance(label, str), i)
        if len(kinds) == 2:
            i, j = sorted(kinds.values())
            raise TypeError(
                f"Next tokens must be of one type: y[{i}] is {type(values[i]).__name__} "
                f"{short(values[i])}, but y[{j}] is {type(values[j]).__name__} {short(values[j])}."
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
    """Labels as an array of one kind; an object array of str stays the user's."""
    if isinstance(values, np.ndarray):
        strings = any(isinstance(v, str) for v in values)
        return values if strings else np.asarray(values.tolist())
    return token_array(values) if isinstance(values[0], str) else np.asarray(values)


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
