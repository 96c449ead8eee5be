"""Options of a command as a typed record; a mistake is one sentence, as everywhere else."""

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
class Trusting:
    """What commands share that build the environment which a file names."""

    trust: tuple[str, ...] = ()
    """Code, as module:function, that files may name as their environment. What you generated on this machine needs no
    such word; for anything else the code is run, so look at it first."""


@cache
def with_settings(record: type[T], name: str, kind: type) -> type[T]:
    """A command's options with the settings of a method or learner, of class `kind`, as further options."""
    settings = (name, Annotated[kind, tyro.conf.arg(name="")], field(kw_only=True))
    return make_dataclass(record.__name__, [settings], bases=(record,), frozen=True)  # pyright: ignore[reportReturnType]


def read_options(record: Callable[..., T], arguments: list[str], *, command: str, description: str, **kwargs: Any) -> T:
    """Read the arguments of a command, and trust what they say is trusted; `--help` prints and exits.

    Raises:
      ValueError: an option is unknown, lacks its value, or has one of another type.
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
    raise ValueError(f"{_first_words(complaint.getvalue())} See `coverset {command} --help`.")


def _trust(options: Any) -> None:
    if isinstance(options, Trusting) and options.trust:
        from coverset.runs.trust import trust

        trust(*options.trust)


def _first_words(box: str) -> str:
    """The first paragraph of a framed message, without its frame, as a sentence."""
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
