"""Figures as files, and as SVG inside a page: text stays text, ids are unique, colours follow light and dark."""

import io
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

from coverset.reports.drawing import INK, METHOD_COLOURS, MUTED, OTHER_COLOURS, STYLE
from coverset.reports.figures import MEMBER_COLOURS

PIXELS_PER_POINT = 96 / 72
VARIABLES: Mapping[str, str] = {
    INK: "ink",
    MUTED: "muted",
    **{colour: method for method, colour in METHOD_COLOURS.items()},
    **{colour: f"other-{number}" for number, colour in enumerate(OTHER_COLOURS)},
    **{colour.lower(): f"member-{number}" for number, colour in enumerate(MEMBER_COLOURS)},
}
"""Which colour of a figure becomes which variable of the page's style sheet."""
_COLOUR = re.compile("|".join(VARIABLES))


def draw_svg(figure: Figure) -> str:
    """The figure as the text of an SVG file, with nothing behind it."""
    return _drawn(figure, format="svg", facecolor="none", metadata={"Date": None}).decode()


def draw_png(figure: Figure) -> bytes:
    """The figure as a PNG file, on white."""
    return _drawn(figure, format="png", facecolor="white", dpi=150, metadata={"Software": None})


def _drawn(figure: Figure, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, **options)
    figure.set_layout_engine("none")  # what is laid out once need not be again
    return buffer.getvalue()


def on_white(svg: str) -> str:
    """The same on white, for viewers whose own ground may be dark."""
    return re.sub(r"(<svg[^>]*>)", r'\1<rect width="100%" height="100%" fill="white"/>', svg, count=1)


def inline_svg(svg: str, *, prefix: str, label: str) -> str:
    """The text of an SVG file as an `<svg>` element of a page.

    Args:
      prefix: put before every id, so that several such elements can share a page.
      label: what the figure shows, for those who do not see it.
    """
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): _rewritten(_local(name), value, prefix) for name, value in element.items()}
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in ("metadata", "style")]:
            parent.remove(child)  # a style sheet in here would rule the whole page
    width = float(root.attrib["width"].removesuffix("pt")) * PIXELS_PER_POINT
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    size = f"--width: {width:.0f}px"
    root.attrib |= {"role": "img", "aria-label": label, "style": size, "class": "chart"}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    """A tag or attribute without its namespace: HTML knows that of everything inside `<svg>`."""
    return name.rpartition("}")[2]


def _rewritten(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href":
        return f"#{prefix}-{value[1:]}" if value.startswith("#") else value
    if name == "style":
        value = _COLOUR.sub(lambda match: f"var(--{VARIABLES[match[0]]})", value)
    return value.replace("url(#", f"url(#{prefix}-")
