"""Render a report as one self-contained HTML page: style and figures are inline, nothing is fetched."""

from html import escape
from importlib.resources import files

from coverset.reports.blocks import Section, render_block
from coverset.reports.document import Document, Part

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<div class="page">
<header><h1>{title}</h1><p class="lead">{lead}</p></header>
<nav aria-label="Contents"><ul>{contents}</ul></nav>
<main>
{parts}
</main>
<footer>{footer}</footer>
</div>
</body>
</html>
"""


def render_page(document: Document, *, footer: str) -> str:
    """Render the whole page."""
    return PAGE.format(
        title=escape(document.title),
        style=files("coverset.reports").joinpath("style.css").read_text(),
        lead=escape(document.lead),
        contents="".join(map(_render_contents, document.parts)),
        parts="\n".join(map(_render_part, document.parts)),
        footer=escape(footer),
    )


def _anchor(part: Part, section: Section) -> str:
    return f"{part.anchor}--{section.anchor}"


def _render_contents(part: Part) -> str:
    inner = "".join(
        f'<li><a href="#{_anchor(part, section)}">{escape(section.title)}</a></li>' for section in part.sections
    )
    return f'<li><a href="#{part.anchor}">{escape(part.title)}</a>' + (f"<ul>{inner}</ul>" if inner else "") + "</li>"


def _render_part(part: Part) -> str:
    blocks = "\n".join(map(render_block, part.blocks))
    sections = "\n".join(_render_section(part, section) for section in part.sections)
    return f'<section id="{part.anchor}">\n<h2>{escape(part.title)}</h2>\n{blocks}\n{sections}\n</section>'


def _render_section(part: Part, section: Section) -> str:
    blocks = "\n".join(map(render_block, section.blocks))
    return f'<section id="{_anchor(part, section)}">\n<h3>{escape(section.title)}</h3>\n{blocks}\n</section>'
