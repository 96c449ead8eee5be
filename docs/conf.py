"""The documentation site: `make docs` builds it to build/docs, with every warning an error."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

project = "coverset"
copyright = "the coverset authors, Apache-2.0"
version = release = installed("coverset")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "settings_tables"]
exclude_patterns = ["results/data", "results/figures"]
html_theme = "furo"
html_title = "coverset"
html_copy_source = False
html_theme_options = {"footer_icons": []}
templates_path: list[str] = []

myst_heading_anchors = 3  # the anchors that the pages have where they are read unbuilt
highlight_language = "text"
default_role = "code"  # a name in single backquotes, as docstrings have it

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"undoc-members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False

nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!coverset\b).*")]  # names of other packages: their pages are elsewhere
