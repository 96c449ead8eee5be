"""The building blocks of a report page and their HTML. All text is escaped here."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TypeAlias

from matplotlib.figure import Figure

from coverset.reports.rendering import draw_svg, inline_svg
from coverset.reports.tables import DataTable

LONGEST_LINE = 16
"""Characters of a cell that is never broken into lines."""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class BulletList:
    """A bulleted list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class CodeBlock:
    """Shell commands, one per line."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Picture:
    """A figure, also written as files, and the data it shows."""

    name: str
    """File name without suffix; unique within the report."""
    figure: Figure
    caption: str
    data: Sequence[DataTable] = ()
    formats: Sequence[str] = ("png", "svg")
    """Kinds of files in which the figure is written."""

    @cached_property
    def svg(self) -> str:
        """The figure as SVG, cached because layout takes most of a report's time."""
        return draw_svg(self.figure)


@dataclass(frozen=True)
class HtmlTable:
    """A formatted table, and the data behind it, which is written as CSV."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    data: Sequence[DataTable] = ()
    text_columns: int = 1
    """Number of leading columns that hold text; the others hold numbers."""
    folded: str = ""
    """If given, the table is collapsed under this summary text."""
    groups: Sequence[tuple[str, int]] = ()
    """Column group headings, each with the number of columns it spans."""


@dataclass(frozen=True)
class FigureRow:
    """Pictures side by side where the page is wide enough."""

    pictures: Sequence[Picture]
    caption: str


Block: TypeAlias = Paragraph | BulletList | CodeBlock | Picture | HtmlTable | FigureRow


@dataclass(frozen=True)
class Section:
    """A titled section of the page."""

    anchor: str
    title: str
    blocks: Sequence[Block]


def pictures_of(block: Block) -> Sequence[Picture]:
    """The figures in a block."""
    if isinstance(block, FigureRow):
        return block.pictures
    return (block,) if isinstance(block, Picture) else ()


def tables_of(block: Block) -> list[DataTable]:
    """The data tables of a block."""
    if isinstance(block, HtmlTable):
        return list(block.data)
    return [table for picture in pictures_of(block) for table in picture.data]


def render_block(block: Block) -> str:
    """Render a block as HTML."""
    match block:
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case BulletList(items):
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
        case CodeBlock(lines):
            return f'<pre class="scroll" tabindex="0"><code>{escape(chr(10).join(lines))}</code></pre>'
        case Picture():
            return _render_figures([block], block.caption)
        case FigureRow(pictures, caption):
            return _render_figures(pictures, caption)
        case HtmlTable():
            return _render_table(block)


def _render_figures(pictures: Sequence[Picture], caption: str) -> str:
    charts = "".join(
        f'<div class="scroll chart-box" tabindex="0">{_render_figure(picture, caption)}</div>' for picture in pictures
    )
    files = [(f"figures/{picture.name}.{kind}", kind.upper()) for picture in pictures for kind in picture.formats]
    if len(pictures) > 1:
        files = [(address, f"{picture_name(address)} {kind}") for address, kind in files]
    data = dict.fromkeys(table.name for picture in pictures for table in picture.data)
    files += [(f"data/{name}.csv", f"{name}.csv") for name in data]
    label = f"{escape(caption)} {_render_links(files)}"
    return f'<figure><div class="charts">{charts}</div><figcaption>{label}</figcaption></figure>'


def picture_name(address: str) -> str:
    """The last part of a figure's file name, which tells it from the other figures of its row."""
    return address.rpartition("/")[2].rpartition(".")[0].rpartition("--")[2]


def _render_figure(picture: Picture, caption: str) -> str:
    return inline_svg(picture.svg, prefix=picture.name, label=caption)


def _render_links(files: Sequence[tuple[str, str]]) -> str:
    links = " ".join(f'<a href="{escape(address, quote=True)}">{escape(name)}</a>' for address, name in files)
    return f'<span class="files">{links}</span>' if files else ""


def _render_table(table: HtmlTable) -> str:
    head = "".join(
        f'<th scope="col"{_cell_class(table, n)}>{escape(name)}</th>' for n, name in enumerate(table.columns)
    )
    if table.groups:
        titles = (f'<th scope="colgroup" colspan="{count}" class="group">{escape(t)}</th>' for t, count in table.groups)
        head = f"{''.join(titles)}</tr><tr>{head}"
    body = "".join(
        "<tr>"
        + "".join(f"<td{_cell_class(table, n, cell)}>{escape(cell)}</td>" for n, cell in enumerate(row))
        + "</tr>"
        for row in table.rows
    )
    files = _render_links([(f"data/{data.name}.csv", f"{data.name}.csv") for data in table.data])
    html = (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p class="caption">{escape(table.caption)} {files}</p>'
    )
    return f"<details><summary>{escape(table.folded)}</summary>{html}</details>" if table.folded else html


def _cell_class(table: HtmlTable, column: int, cell: str = "") -> str:
    """Numbers stand on the right; long cells may break, so that tables of long names fit the page."""
    names = ["number"] * (column >= table.text_columns) + ["long"] * (len(cell) > LONGEST_LINE)
    return f' class="{" ".join(names)}"' if names else ""
