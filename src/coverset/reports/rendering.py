"""Render figures as files and as inline SVG, with selectable text, unique ids and colours from CSS variables."""

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
"""The CSS variable that replaces each colour of a figure."""
_COLOUR = re.compile("|".join(VARIABLES))


def draw_svg(figure: Figure) -> str:
    """Render a figure as SVG text with a transparent background."""
    return _save(figure, format="svg", facecolor="none", metadata={"Date": None}).decode()


def draw_png(figure: Figure) -> bytes:
    """Render a figure as PNG on a white background."""
    return _save(figure, format="png", facecolor="white", dpi=150, metadata={"Software": None})


def draw_file(figure: Figure, svg: str, kind: str) -> bytes:
    """Render a figure as a file of one kind: png, svg or pdf; `svg` is what `draw_svg` has rendered."""
    if kind == "svg":
        return add_white_background(svg).encode()
    return draw_png(figure) if kind == "png" else _save(figure, format="pdf", metadata={"CreationDate": None})


def _save(figure: Figure, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, **options)
    figure.set_layout_engine("none")  # keep the layout for the next format
    return buffer.getvalue()


def add_white_background(svg: str) -> str:
    """Add a white background, for viewers with a dark one."""
    return re.sub(r"(<svg[^>]*>)", r'\1<rect width="100%" height="100%" fill="white"/>', svg, count=1)


def inline_svg(svg: str, *, prefix: str, label: str) -> str:
    """Convert the text of an SVG file to an `<svg>` element of an HTML page.

    Args:
      prefix: prepended to every id, so that several elements can share a page.
      label: description for screen readers.
    """
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        element.tag = _strip_namespace(element.tag)
        element.attrib = {
            _strip_namespace(name): _rewrite_attribute(_strip_namespace(name), value, prefix)
            for name, value in element.items()
        }
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in ("metadata", "style")]:
            parent.remove(child)  # a style sheet here would apply to the whole page
    width = float(root.attrib["width"].removesuffix("pt")) * PIXELS_PER_POINT
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    size = f"--width: {width:.0f}px"
    root.attrib |= {"role": "img", "aria-label": label, "style": size, "class": "chart"}
    return ElementTree.tostring(root, encoding="unicode")


def _strip_namespace(name: str) -> str:
    """Remove the namespace of a tag or attribute; HTML infers it inside `<svg>`."""
    return name.rpartition("}")[2]


def _rewrite_attribute(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href":
        return f"#{prefix}-{value[1:]}" if value.startswith("#") else value
    if name == "style":
        value = _COLOUR.sub(lambda match: f"var(--{VARIABLES[match[0]]})", value)
    return value.replace("url(#", f"url(#{prefix}-")
