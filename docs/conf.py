"""Sphinx's settings for the site of guides and reference; tools/docs builds it."""

project = "Shardkit"
html_title = "Shardkit"
html_theme = "furo"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx"]
exclude_patterns = ["build*", "dist", "tests", "lib", "tools", "fuzz", "python", "**/venv"]
root_doc = "docs/index"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autoclass_content = "both"
napoleon_google_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
# Nothing is fetched while the site is built.
intersphinx_mapping: dict[str, tuple[str, str | None]] = {}
