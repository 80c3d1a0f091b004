"""What the README shows is what comes out."""

import doctest
from pathlib import Path


def test_readme_examples():
    readme = Path(__file__).parents[1] / "README.md"
    result = doctest.testfile(str(readme), module_relative=False)
    assert result.attempted >= 10
    assert result.failed == 0
