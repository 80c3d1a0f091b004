"""What the README and the documentation show is what comes out."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import sklntp

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = ("_build", "auto_examples", "generated")
PAGES = [
    ROOT / "README.md",
    *(p for p in sorted(DOCS.rglob("*.md")) if p.relative_to(DOCS).parts[0] not in BUILT),
]
WITH_EXAMPLES = [page for page in PAGES if ">>>" in page.read_text(encoding="utf-8")]


def name_of(page):
    return str(page.relative_to(ROOT).with_suffix(""))


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_examples_of_a_page(page):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
    assert result.attempted >= 2
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_links_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    for line in text.replace("`", "\n").splitlines():
        if line.startswith("python ") and ".py" in line:
            assert (ROOT / line.split()[1]).is_file() or line.split()[1] == "-m", line
    for target in [part.split(")")[0] for part in text.split("](")[1:]]:
        if not target.startswith("https://") and "auto_examples/" not in target:
            assert (page.parent / target.split("#")[0]).exists(), target


def test_the_readme_has_examples():
    assert ROOT / "README.md" in WITH_EXAMPLES


def listed_names():
    """Module -> names that the API page lists below its `currentmodule` or `automodule`."""
    names = {}
    for line in (DOCS / "api.rst").read_text(encoding="utf-8").splitlines():
        if module := re.match(r"\.\. (?:currentmodule|automodule):: (\S+)", line):
            listed = names.setdefault(module[1], [])
        elif re.fullmatch(r"   \w+", line):
            listed.append(line.strip())
    return names


def test_the_api_page_lists_every_public_name():
    modules = [m for m in sklntp.__all__ if hasattr(getattr(sklntp, m), "__all__")]
    public = {"sklntp": set(sklntp.__all__) - {*modules, "__version__"}}
    for name in modules:
        public[f"sklntp.{name}"] = set(importlib.import_module(f"sklntp.{name}").__all__)
    listed = listed_names()
    assert {module: set(names) for module, names in listed.items()} == public
    assert all(len(names) == len(set(names)) for names in listed.values())


def test_every_page_is_in_a_toctree():
    listed = {DOCS / "index"}
    for page in DOCS.rglob("index.md"):
        for toctree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.S):
            entries = [line for line in toctree.splitlines() if line and not line.startswith(":")]
            targets = [re.sub(r".*<(.*)>", r"\1", entry) for entry in entries]
            listed |= {(page.parent / target).resolve() for target in targets}
    assert {page.with_suffix("") for page in PAGES[1:]} <= listed


def test_the_citation_names_this_version():
    for page in (ROOT / "CITATION.cff", DOCS / "citing.md"):
        assert re.search(
            rf"version\W+{re.escape(sklntp.__version__)}\b", page.read_text(encoding="utf-8")
        )
