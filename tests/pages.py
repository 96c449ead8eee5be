"""What the tests of documentation share: the pages, their code blocks, and the commands on them."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import coverset
import toy_study

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^(?P<marks>`{3,})(?P<kind>[^\s`]*)(?: title=\"(?P<title>[^\"]+)\")?[^`]*$")
NOT_A_SHELL = ("python", "toml", "json")


class Block(NamedTuple):
    """A code block of a page; what is only indented has no kind."""

    kind: str
    title: str | None
    text: str


def pages() -> dict[str, Path]:
    """Every page that people read, by its name below the root."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return {str(path.relative_to(ROOT)): path for path in sorted(found)}


def blocks(text: str) -> Iterator[Block]:
    """The code blocks of a page in order: fenced ones, and those that are indented by four after an empty line."""
    lines = iter([*text.splitlines(), ""])
    before = ""
    for line in lines:
        if fence := FENCE.match(line):
            inside = []
            while not (line := next(lines)).startswith(fence["marks"]):
                inside.append(line)
            yield Block(fence["kind"], fence["title"], "\n".join(inside) + "\n")
        elif line.startswith("    ") and not before.strip():
            inside = []
            while line.startswith("    "):
                inside.append(line[4:])
                line = next(lines, "")
            yield Block("", None, "\n".join(inside) + "\n")
        before = line


def commands(text: str) -> list[list[str]]:
    """The words behind `coverset` of every command line in the blocks of a page, as a shell would read them."""
    found = []
    for block in blocks(text):
        if block.kind not in NOT_A_SHELL:
            for line in block.text.replace("\\\n", " ").splitlines():
                words = shlex.split(line.strip().removeprefix("$ "), comments=True) if "coverset " in line else []
                if words[:1] == ["coverset"]:
                    found.append([word for word in words[1:] if word != "&"])
    return found


def command(page: str, naming: str) -> list[str]:
    """The one command of a page that names something."""
    (words,) = (words for words in commands((ROOT / page).read_text()) if naming in words)
    return words


def shrink(monkeypatch) -> None:
    """Make everything that a page trains or plays small, whatever sizes it asks for."""
    sizes: dict[str, dict[str, Any]] = {
        "generate": toy_study.GENERATION | {"minibatches": 1},
        "train": toy_study.TRAINING,
        "evaluate": {"trials": 2, "episodes": 3},
    }
    for name, settings in sizes.items():
        plain = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
        monkeypatch.setattr(coverset, name, _shrunk(getattr(coverset, name), plain), raising=False)


def _shrunk(function: Callable[..., Any], settings: dict[str, Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **{**kwargs, **settings})
