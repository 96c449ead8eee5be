"""Sentences of the library in the words of the command line.

The library names parameters and functions as Python spells them, in backquotes; a command shows what a shell
understands:

    `resume=True`                                ->  --resume
    `out`                                        ->  --out
    `train('runs/a', learner='rl2')`             ->  `coverset train runs/a --learner rl2`
"""

import ast
import itertools
import re
import shlex
from typing import Any

QUOTED = re.compile("`([^`]+)`")
PARAMETERS = frozenset(
    {"address", "agents", "alphas", "env", "env_args", "learner", "name", "out", "partners", "port", "resume", "seeds"}
)
"""Parameters that messages advise, and that are options of the same name."""


def in_options(sentence: str) -> str:
    """Replace parameters and calls of Python in backquotes by options and commands; anything else stays."""
    return QUOTED.sub(lambda found: _translate(found[1]) or found[0], sentence)


def _translate(text: str) -> str | None:
    """The text for a shell; None where it is neither a parameter nor a call with literal arguments."""
    if text in PARAMETERS:
        return _option(text)
    try:
        if text.partition("=")[0] in PARAMETERS:
            return shlex.join(_words(f"coverset({text})")[1:])
        return f"`{shlex.join(['coverset', *_words(text)])}`"
    except (SyntaxError, TypeError, ValueError):
        return None


def _words(text: str) -> list[str]:
    """The name of a function and its arguments; an ellipsis stands for arguments that are not named."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError("not a call")
    positional = [ast.literal_eval(argument) for argument in call.args]
    named = [_option_words(str(keyword.arg), ast.literal_eval(keyword.value)) for keyword in call.keywords]
    return [call.func.id, *(str(word) for word in positional if word is not ...), *itertools.chain(*named)]


def _option_words(name: str, given: Any) -> list[str]:
    if isinstance(given, bool):
        return [_option(name if given else f"no_{name}")]
    return [_option(name), *map(str, given if isinstance(given, list | tuple) else [given])]


def _option(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"
