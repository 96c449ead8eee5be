"""The parts that a report's page is put together from, and each of them as HTML. All text is escaped here."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TypeAlias

from matplotlib.figure import Figure

from coverset.reports.rendering import draw_svg, inline_svg
from coverset.reports.tables import Table


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Commands, a line each."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Picture:
    """A figure, written as PNG and SVG too, and the data it draws."""

    name: str
    """Of its files, without ending; unique within the report."""
    figure: Figure
    caption: str
    data: Sequence[Table] = ()

    @cached_property
    def svg(self) -> str:
        """The figure as SVG, drawn once: laying it out takes most of the time of a report."""
        return draw_svg(self.figure)


@dataclass(frozen=True)
class Grid:
    """A table to look at, made from data that is written as CSV."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    data: Sequence[Table] = ()
    text_columns: int = 1
    """How many columns, from the left, hold words; the others hold numbers."""
    folded: str = ""
    """If given, the table opens on a click on these words."""
    groups: Sequence[tuple[str, int]] = ()
    """Headings above the columns, each with the number of columns below it."""


@dataclass(frozen=True)
class Row:
    """Pictures side by side where there is room."""

    pictures: Sequence[Picture]
    caption: str


Block: TypeAlias = Words | Points | Code | Picture | Grid | Row


@dataclass(frozen=True)
class Section:
    """A title and what stands below it."""

    anchor: str
    title: str
    blocks: Sequence[Block]


def pictures_of(block: Block) -> Sequence[Picture]:
    """The figures in a block."""
    if isinstance(block, Row):
        return block.pictures
    return (block,) if isinstance(block, Picture) else ()


def tables_of(block: Block) -> list[Table]:
    """The data of a block."""
    if isinstance(block, Grid):
        return list(block.data)
    return [table for picture in pictures_of(block) for table in picture.data]


def block_html(block: Block) -> str:
    """A block as HTML."""
    match block:
        case Words(text):
            return f"<p>{escape(text)}</p>"
        case Points(items):
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
        case Code(lines):
            return f'<pre class="scroll" tabindex="0"><code>{escape(chr(10).join(lines))}</code></pre>'
        case Picture():
            return _figure_html([block], block.caption)
        case Row(pictures, caption):
            return _figure_html(pictures, caption)
        case Grid():
            return _grid_html(block)


def _figure_html(pictures: Sequence[Picture], caption: str) -> str:
    charts = "".join(
        f'<div class="scroll chart-box" tabindex="0">{_chart(picture, caption)}</div>' for picture in pictures
    )
    files = [(f"figures/{picture.name}.{kind}", kind.upper()) for picture in pictures for kind in ("png", "svg")]
    if len(pictures) > 1:
        files = [(address, f"{picture_name(address)} {kind}") for address, kind in files]
    data = dict.fromkeys(table.name for picture in pictures for table in picture.data)
    files += [(f"data/{name}.csv", f"{name}.csv") for name in data]
    return (
        f'<figure><div class="charts">{charts}</div><figcaption>{escape(caption)} {_links(files)}</figcaption></figure>'
    )


def picture_name(address: str) -> str:
    """The last word of a figure's file name: what sets it apart from its neighbours."""
    return address.rpartition("/")[2].rpartition(".")[0].rpartition("--")[2]


def _chart(picture: Picture, caption: str) -> str:
    return inline_svg(picture.svg, prefix=picture.name, label=caption)


def _links(files: Sequence[tuple[str, str]]) -> str:
    links = " ".join(f'<a href="{escape(address, quote=True)}">{escape(name)}</a>' for address, name in files)
    return f'<span class="files">{links}</span>' if files else ""


def _grid_html(grid: Grid) -> str:
    head = "".join(f'<th scope="col"{_kind(grid, n)}>{escape(name)}</th>' for n, name in enumerate(grid.columns))
    if grid.groups:
        titles = (f'<th scope="colgroup" colspan="{count}" class="group">{escape(t)}</th>' for t, count in grid.groups)
        head = f"{''.join(titles)}</tr><tr>{head}"
    body = "".join(
        "<tr>" + "".join(f"<td{_kind(grid, n)}>{escape(cell)}</td>" for n, cell in enumerate(row)) + "</tr>"
        for row in grid.rows
    )
    files = _links([(f"data/{table.name}.csv", f"{table.name}.csv") for table in grid.data])
    table = (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p class="caption">{escape(grid.caption)} {files}</p>'
    )
    return f"<details><summary>{escape(grid.folded)}</summary>{table}</details>" if grid.folded else table


def _kind(grid: Grid, column: int) -> str:
    return "" if column < grid.text_columns else ' class="number"'
