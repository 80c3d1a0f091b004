"""scikit-learn's own checks, all of them, with no expected failure."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

from sklntp import NTPTransformerClassifier

SMALL = NTPTransformerClassifier(max_iter=50)


@parametrize_with_checks([SMALL])
def test_battery(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check", [check_dataframe_column_names_consistency, check_param_validation]
)
def test_importable_but_not_yielded(check):
    check("NTPTransformerClassifier", SMALL)


def test_the_battery_is_whole():
    """At least 61 checks run; a tag that switches checks off would lower the number."""
    checks = list(estimator_checks.estimator_checks_generator(SMALL))
    assert len(checks) >= 61
