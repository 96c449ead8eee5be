"""Every message on the troubleshooting page is one that the code can print, and every option exists."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import pages
from coverset.cli.wording import in_options
from coverset.settings import GenerateSettings, TrainSettings
from coverset.teammates.methods.lbrdiv import LBRDiv

PAGE = (pages.ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
MESSAGES = [block.text.strip() for block in pages.blocks(PAGE) if block.kind == "text"]
COMMON_OPTIONS = {"method", "out", "resume", "seeds", "trust"}
VARIES = "\0"


def literals(path: Path) -> Iterator[str]:
    """The string literals of a file; what an f-string inserts is one character."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else VARIES for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


LITERALS = [text for path in (pages.ROOT / "src" / "coverset").rglob("*.py") for text in literals(path)]
SOURCE = [*LITERALS, *(in_options(text.replace(VARIES, "0")) for text in LITERALS)]
"""As Python's messages have them, and as the command line words them."""


def pieces(message: str) -> list[str]:
    """The fixed parts of a message that are long enough to search for."""
    return [piece for part in message.split("...") if len(piece := part.strip(" (),:")) > 8]


@pytest.mark.parametrize("message", MESSAGES)
def test_the_code_can_print_it(message: str) -> None:
    assert pieces(message)
    for piece in pieces(message):
        known = any(piece in text or (piece.rstrip(".") in text) for text in SOURCE)
        assert known, f"nothing in the source says {piece!r}"


def test_every_option_exists() -> None:
    settings = {field.name for owner in (GenerateSettings, TrainSettings, LBRDiv) for field in fields(owner)}
    options = {name.replace("-", "_") for name in re.findall(r"(?<![\w-])--([a-z][a-z-]+)", PAGE)}
    assert options <= settings | COMMON_OPTIONS
    assert len(options & settings) > 8


def test_a_message_that_nobody_prints_is_seen() -> None:
    with pytest.raises(AssertionError, match="nothing in the source says"):
        test_the_code_can_print_it("... has run out of patience with ...")
