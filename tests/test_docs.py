"""What the README and the documentation show is what comes out."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if ">>>" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_of_a_page(page):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
    assert result.attempted >= 2
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_links_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    for line in text.replace("`", "\n").splitlines():
        if line.startswith("python ") and ".py" in line:
            assert (ROOT / line.split()[1]).is_file() or line.split()[1] == "-m", line
    for target in [part.split(")")[0] for part in text.split("](")[1:]]:
        if not target.startswith("https://"):
            assert (page.parent / target.split("#")[0]).exists(), target


def test_the_readme_has_examples():
    assert ROOT / "README.md" in WITH_EXAMPLES
