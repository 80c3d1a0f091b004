"""scikit-learn's HTML view of an estimator."""

import re

import pytest
import sklearn
from data import TWOQ, fitted
from sklearn.utils.fixes import parse_version

from sklntp import _doc_link, make_next_token_pipeline
from sklntp.preprocessing import NGramTokens

VERSION = parse_version(sklearn.__version__)
TEXTS, ATTRIBUTES = VERSION >= parse_version("1.8"), VERSION >= parse_version("1.9")


def _links(estimator):
    return set(re.findall(r'href="([^"#]+)', estimator._repr_html_()))


def test_without_a_declared_site_links_lead_to_the_paper(monkeypatch):
    monkeypatch.setattr(_doc_link, "SITE", None)
    paper = "https://arxiv.org/abs/2409.17335"
    assert paper in _links(fitted(TWOQ))
    html = fitted(TWOQ)._repr_html_()
    if TEXTS:
        assert "Reaching it is no failure" in html  # the text of max_iter
    assert ("sparse_coef_kq_" in html) == ATTRIBUTES
    assert len(html) < 80_000


@pytest.mark.parametrize(
    ("make", "page"),
    [
        (lambda: fitted(TWOQ), "sklntp.NTPTransformerClassifier"),
        (lambda: NGramTokens().fit([["a"]]), "sklntp.preprocessing.NGramTokens"),
        (make_next_token_pipeline, "sklntp.preprocessing.PositionTagger"),
    ],
)
def test_links_lead_to_the_page_of_each_estimator(monkeypatch, make, page):
    monkeypatch.setattr(_doc_link, "SITE", "https://docs.invalid")
    assert f"https://docs.invalid/generated/{page}.html" in _links(make())


def test_the_site_is_that_of_the_metadata(monkeypatch):
    class Metadata:
        def get_all(self, name):
            assert name == "Project-URL"
            return ["Source, https://a.invalid", "Documentation, https://b.invalid"]

    monkeypatch.setattr(_doc_link, "metadata", lambda name: Metadata())
    assert _doc_link._documentation() == "https://b.invalid"

    def missing(name):
        raise _doc_link.PackageNotFoundError

    monkeypatch.setattr(_doc_link, "metadata", missing)
    assert _doc_link._documentation() is None
