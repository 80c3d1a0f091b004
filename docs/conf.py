"""Sphinx: `make docs` builds docs/_build/html, with warnings as errors and no network."""

import dataclasses
import re

from docutils import nodes
from numpydoc.docscrape_sphinx import SphinxDocString
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform
from sphinx_gallery.sorting import ExplicitOrder

import sklntp
from sklntp import _doc_link

_doc_link.SITE = ".."  # estimators shown in the gallery link to their pages beside it

project = "sklntp"
author = "The sklntp developers"
copyright = author
release = version = sklntp.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
nitpicky = True
highlight_language = "none"  # of blocks that say no language: formulas and output
toc_object_entries_show_parents = "hide"

# Markdown: formulas between dollars, and links to headings by the anchors that forges give them.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
mathjax_path = "mathjax/tex-chtml.js"  # the copy that sphinx-mathjax-offline brings

# A name between single backticks links to what it names, if it names something here.
default_role = "py:obj"
nitpick_ignore_regex = [("py:obj", r".*")]
autosummary_generate = True
# Alignment and alignment are two pages, on file systems that ignore case too.
autosummary_filename_map = {"sklntp.metrics.Alignment": "sklntp.metrics.Alignment-class"}
numpydoc_show_class_members = False  # the template for classes lists them

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",  # every script runs
    "within_subsection_order": ExplicitOrder(["paper_figure.py", "*"]),
    "abort_on_example_error": True,
    "doc_module": ("sklntp",),
    "backreferences_dir": "generated/examples",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,  # its page loads scripts from elsewhere
}

html_theme = "pydata_sphinx_theme"
html_title = "sklntp"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_sidebars = {"**": ["sidebar-nav-bs"]}
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

ELSEWHERE = {
    "sklearn": "https://scikit-learn.org/stable/modules/generated/{target}.html",
    "datetime": "https://docs.python.org/3/library/datetime.html#{target}",
}


def public_objects():
    """Full name -> object, of everything public."""
    modules = [sklntp, *(m for m in vars(sklntp).values() if hasattr(m, "__all__"))]
    return {f"{m.__name__}.{name}": getattr(m, name) for m in modules for name in m.__all__}


def own_methods(owner):
    """The public methods that this package defines; scikit-learn documents the others."""
    names = [name for name in dir(owner) if not name.startswith("_")]
    return [m for m in names if getattr(getattr(owner, m), "__module__", "").startswith("sklntp.")]


OBJECTS = public_objects()
PUBLIC = {name.split(".")[-1]: name for name in OBJECTS}
autosummary_context = {
    "own_methods": {name: own_methods(o) for name, o in OBJECTS.items() if isinstance(o, type)}
}


class LinkCode(SphinxTransform):
    """Inline code that is a public name links to its page; the Markdown stays plain."""

    default_priority = 400
    kept = (nodes.reference, nodes.title, pending_xref)  # links already, or copied into menus

    def apply(self):
        if self.env.doc2path(self.env.docname).suffix != ".md":
            return
        for literal in list(self.document.findall(nodes.literal)):
            target = PUBLIC.get(literal.astext().split(".")[-1])
            if target is None or isinstance(literal.parent, self.kept):
                continue
            link = pending_xref("", refdomain="py", reftype="obj", reftarget=target)
            link["refdoc"] = self.env.docname
            literal.replace_self(link)
            link += literal


def scripts_to_gallery(app, docname, source):
    """Markdown pages link to the scripts, as a forge shows them; here to the gallery's pages."""
    source[0] = re.sub(
        r"\]\(((?:\.\./)*)\.\./examples/(\w+)\.py\)", r"](\1auto_examples/\2.rst)", source[0]
    )


def link_elsewhere(app, env, node, content):
    """Links to other projects' pages, without reading an inventory from the network."""
    target = node.get("reftarget", "")
    address = ELSEWHERE.get(target.split(".")[0])
    if node.get("refdomain") == "py" and address and "." in target:
        return nodes.reference("", "", content, refuri=address.format(target=target))
    return None


def hide_constructor(app, what, name, obj, options, signature, returns):
    """Dataclasses are results, which nobody constructs."""
    return ("", None) if what == "class" and dataclasses.is_dataclass(obj) else None


def attribute_texts(self, param, desc, fake_autosummary, original=SphinxDocString._process_param):
    """Keep what the class docstring says of an attribute that is a property."""
    return original(self, param, desc, fake_autosummary=False)


SphinxDocString._process_param = attribute_texts


def setup(app):
    app.add_transform(LinkCode)
    app.connect("source-read", scripts_to_gallery)
    app.connect("missing-reference", link_elsewhere)
    app.connect("autodoc-process-signature", hide_constructor)
