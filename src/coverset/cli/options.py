"""Parse the options of a command into a typed record; errors are reported in one sentence."""

import contextlib
import io
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, is_dataclass, make_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

import tyro
from tyro import _docstrings

from coverset.checks import suggest_nearest

T = TypeVar("T")
BOX = "│╭╮╰╯"
WIDEST = 100
"""Longest line of help texts."""
RULE = re.compile("[─═]{3,}")


@dataclass(frozen=True, kw_only=True)
class TrustOptions:
    """The option of commands that build an environment named in a file."""

    trust: tuple[str, ...] = ()
    """Code, as module:function, that files may name as their environment. Runs generated on this machine do not need
    it. Trusted code is executed, so review it first."""


@cache
def with_settings(record: type[T], name: str, kind: type) -> type[T]:
    """A command's options with the settings of a method or learner, of class `kind`, as further options."""
    settings = (name, Annotated[kind, tyro.conf.arg(name="")], field(kw_only=True))
    return make_dataclass(record.__name__, [settings], bases=(record,), frozen=True)  # pyright: ignore[reportReturnType]


def read_options(record: Callable[..., T], arguments: list[str], *, command: str, description: str, **kwargs: Any) -> T:
    """Parse the arguments of a command, and trust the code that `--trust` names; `--help` prints and exits.

    Args:
      record: the dataclass of the options.
      arguments: the words after the command.
      command: name of the command.
      description: text of `--help`.
      **kwargs: further arguments of `tyro.cli`.

    Raises:
      ValueError: an option is unknown, has no value, or has a value of the wrong type.
    """
    complaint = io.StringIO()
    kwargs |= {"prog": f"coverset {command}", "description": wrap_text(description), "args": arguments}
    try:
        with contextlib.redirect_stderr(complaint), _flowing_docstrings():
            options = tyro.cli(record, **kwargs)
        _trust(options)
        return options
    except SystemExit as end:
        if not end.code:
            raise
    told = _describe_unknown(record, arguments) or _first_paragraph(complaint.getvalue())
    raise ValueError(f"{told} See `coverset {command} --help`.")


def wrap_text(text: str) -> str:
    """Text with its paragraphs wrapped to the terminal; indented lines, such as examples, stay as they are."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    paragraphs = [paragraph.splitlines() for paragraph in text.strip().split("\n\n")]
    return "\n\n".join(_wrap_paragraph(lines, width) for lines in paragraphs)


def _wrap_paragraph(lines: list[str], width: int) -> str:
    if any(line.startswith(" ") for line in lines):
        return "\n".join(lines)
    # tyro would join lines that begin with a letter.
    options: dict[str, Any] = {"initial_indent": "  ", "subsequent_indent": "  ", "break_long_words": False}
    return textwrap.fill(" ".join(lines), width, break_on_hyphens=False, **options)


@contextlib.contextmanager
def _flowing_docstrings() -> Iterator[None]:
    """Let help texts flow: tyro breaks a line wherever the docstring of a field does."""
    read = _docstrings.get_field_docstring

    def read_flowing(*arguments: Any) -> str | None:
        found = read(*arguments)
        return None if found is None else " ".join(found.split())

    _docstrings.get_field_docstring = read_flowing
    try:
        yield
    finally:
        _docstrings.get_field_docstring = read


def _describe_unknown(record: Any, arguments: list[str]) -> str | None:
    """A sentence about the first option that does not exist, with the nearest that does; None if all exist."""
    known = [*_option_names(record), "--help"]
    given = [word.partition("=")[0].replace("_", "-") for word in arguments if word.startswith("--")]
    unknown = next((option for option in given if option not in known), None)
    return None if unknown is None else f"There is no option {unknown}.{suggest_nearest(unknown, known)}"


def _option_names(record: Any) -> Iterator[str]:
    """Options of a record; settings within it are options of their own."""
    for name, kind in get_type_hints(record).items():
        if is_dataclass(kind):
            yield from _option_names(kind)
        else:
            yield from (f"--{name.replace('_', '-')}", *([f"--no-{name.replace('_', '-')}"] if kind is bool else []))


def _trust(options: Any) -> None:
    if isinstance(options, TrustOptions) and options.trust:
        from coverset.runs.trust import trust

        trust(*options.trust)


def _first_paragraph(box: str) -> str:
    """The first paragraph of a boxed message, without its box, as a sentence."""
    lines = [line.strip(f"{BOX} ") for line in box.splitlines()]
    inside = [line for line in lines if line and not line.startswith("─ ")]
    paragraph: list[str] = []
    for line in inside:
        if RULE.search(line):
            if paragraph:
                break
            continue
        paragraph.append(line)
    return " ".join(paragraph).rstrip(".") + "."
