"""Sphinx's settings for the site of guides and reference; tools/docs builds it."""

import builtins

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

project = "Shardkit"
html_title = "Shardkit"
html_theme = "furo"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx"]
exclude_patterns = ["build*", "dist", "tests", "lib", "tools", "fuzz", "python", "**/venv", ".pytest_cache"]
root_doc = "docs/index"
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # the pages of the specification keep the levels of its sections
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_mock_imports = ["nvidia"]  # DALI, which shardkit.dali imports
autodoc_typehints = "signature"
autodoc_type_aliases = {"Array": "numpy.ndarray"}  # known to type checkers alone
autoclass_content = "both"
napoleon_google_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
# Nothing is fetched while the site is built.
intersphinx_mapping: dict[str, tuple[str, str | None]] = {}


def setup(app: Sphinx) -> None:
    """Leave the names of Python's own types alone, and "path": an attribute may have the same name."""

    def plain(_: Sphinx, document: nodes.document) -> None:
        for reference in document.findall(pending_xref):
            target = reference["reftarget"]
            if reference.get("refdomain") == "py" and (target == "path" or hasattr(builtins, target)):
                reference["reftarget"] = f"builtins.{target}"

    app.connect("doctree-read", plain)
