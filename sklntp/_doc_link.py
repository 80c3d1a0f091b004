"""Where scikit-learn's HTML view of an estimator links to."""

from importlib.metadata import PackageNotFoundError, metadata

_PAPER = "https://arxiv.org/abs/2409.17335"


def _documentation():
    """The package's declared documentation site; None where it declares none."""
    try:
        urls = metadata("sklntp").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from its source
        return None
    found = dict(entry.split(", ", 1) for entry in urls)
    return found.get("Documentation")


SITE = _documentation()


class DocLink:
    """Mixin: to the page of the documentation, or the paper while no site is declared.

    scikit-learn shows the texts of parameters only where there is a link.
    """

    _doc_link_module = "sklntp"

    @property
    def _doc_link_template(self):
        return _PAPER if SITE is None else f"{SITE}/generated/{{estimator_path}}.html"

    def _doc_link_url_param_generator(self):
        kind = type(self)
        package = "sklntp.preprocessing" if hasattr(kind, "transform") else "sklntp"
        return {"estimator_path": f"{package}.{kind.__name__}"}
