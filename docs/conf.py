"""The documentation site: `make docs` builds it to build/docs, with every warning an error."""

import re
import shutil
import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE))

project = "coverset"
copyright = "the coverset authors, Apache-2.0"
version = release = installed("coverset")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "settings_tables"]
exclude_patterns = ["appendix/results/data", "appendix/results/figures", "appendix/results/foraging"]
html_theme = "furo"
html_title = "coverset"
html_copy_source = False
html_theme_options = {"footer_icons": []}
templates_path: list[str] = []

myst_heading_anchors = 3  # the anchors that the pages have where they are read unbuilt
highlight_language = "text"
default_role = "code"  # a name in single backquotes, as docstrings have it

autodoc_member_order = "bysource"
autodoc_mock_imports = ["jaxmarl", "jumanji"]  # they print, or start JAX, while they are imported
autodoc_typehints_format = "short"
autodoc_default_options = {"undoc-members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False

nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!coverset\b).*")]  # names of other packages: their pages are elsewhere

TITLED_BLOCK = re.compile(r'^```(\w+) title="([^"]+)"$', re.MULTILINE)
LINK_TO_REPORT = re.compile(r"\[([^\]]+)\]\(([\w/]*\bindex\.html)\)")


def adapt(app: Any, page: str, source: list[str]) -> None:
    """Show the titles of code blocks, and link to reports of the results as pages, not as downloads."""
    source[0] = TITLED_BLOCK.sub(r"```{code-block} \1\n:caption: \2\n", source[0])
    source[0] = LINK_TO_REPORT.sub(r'<a href="\2">\1</a>', source[0])


def copy_report(app: Any, failed: Exception | None) -> None:
    """Put the report of the results, with its figures and data, beside the page about it."""
    results = Path("appendix", "results")
    shutil.copytree(HERE / results, app.outdir / results, ignore=shutil.ignore_patterns("*.md"), dirs_exist_ok=True)


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", adapt)
    app.connect("build-finished", copy_report)
