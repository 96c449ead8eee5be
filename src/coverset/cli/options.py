"""Parse the options of a command into a typed record; errors are reported in one sentence."""

import contextlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

import tyro

T = TypeVar("T")
BOX = "│╭╮╰╯"
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
    try:
        with contextlib.redirect_stderr(complaint):
            options = tyro.cli(record, prog=f"coverset {command}", description=description, args=arguments, **kwargs)
        _trust(options)
        return options
    except SystemExit as end:
        if not end.code:
            raise
    raise ValueError(f"{_first_paragraph(complaint.getvalue())} See `coverset {command} --help`.")


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
