"""The commands that reproduce a chapter's runs, derived from their config.json."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from coverset.adhoc.registry import LEARNERS, agent_folder
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.extending import is_installed
from coverset.presets import resolve_generation, resolve_training, train_settings
from coverset.reports.chapters import Chapter, MethodRuns
from coverset.reports.records import Content
from coverset.runs.storage import to_jsonable
from coverset.teammates.registry import METHODS


def reproduction_commands(chapter: Chapter) -> list[str]:
    """Commands for every method, with each setting that differs from the installed version's preset."""
    lines = []
    for method in chapter.methods:
        directory = method.runs[0].directory
        lines.append(_generate_command(method, directory))
        if method.certificates():
            lines.append(shlex.join(["coverset", "certify", directory]))
        if method.inspections():
            lines.append(shlex.join(["coverset", "inspect", directory]))
        for group in chapter.agents:
            if agents := method.agents.get(group.label):
                first = next(iter(agents.values()))
                named = [] if first.name == agent_folder(group.learner) else ["--name", first.name]
                lines.append(_train_command(first.config, named, directory, chapter.env))
                if evaluations := method.evaluations.get(group.label):
                    record = next(iter(evaluations.values()))
                    which = ["--agents", first.name] if named else ["--learner", group.learner]
                    lines.append(_evaluate_command(record, which, directory, method.runs[0].config))
    return lines


def _generate_command(method: MethodRuns, directory: str) -> str:
    config = method.runs[0].config
    words = ["coverset", "generate", config["env"], "--method", config["method"], "--preset", config["preset"]]
    words += ["--seeds", *(str(run.seed) for run in method.runs), "--out", directory]
    words += _setting_options(config, "method_settings", lambda: _generation_defaults(config))
    if arguments := _environment_arguments(config):
        words += ["--env-args", *arguments]
    return shlex.join(words)


def _train_command(config: Content, named: list[str], directory: str, env: str) -> str:
    words = ["coverset", "train", directory, "--learner", config["learner"], *named, "--preset", config["preset"]]
    if config["partners"] != ["teammates"]:
        words += ["--partners", *config["partners"]]
    if config["seat"]:
        words += ["--seat", str(config["seat"])]
    return shlex.join(words + _setting_options(config, "learner_settings", lambda: _training_defaults(config, env)))


def _evaluate_command(record: Content, which: list[str], directory: str, generated: Content) -> str:
    words = ["coverset", "evaluate", directory, *which]
    words += ["--trials", str(record["trials"]), "--episodes", str(record["episodes"])]
    environment = _make_environment(generated["env"], generated["env_parameters"])
    partners = _partner_names([*record["partners"]])
    if environment is None or partners != [*heuristics(environment)]:
        words += ["--partners", *partners]
    return shlex.join(words)


def _partner_names(met: Sequence[str]) -> list[str]:
    """Names for `--partners`: members `NAME 1`, `NAME 2`, ... of one population are merged into `NAME`."""
    names = (re.fullmatch(r"(.+) \d+", one) for one in met)
    populations = [match[1] if match and f"{match[1]} 2" in met else one for match, one in zip(names, met, strict=True)]
    return [*dict.fromkeys(populations)]


def _generation_defaults(config: Content) -> dict[str, Any]:
    """The preset's settings; none of a method that only an import could tell of."""
    if not is_installed("method", config["method"], METHODS):
        return {}
    settings, method = resolve_generation(config["env"], config["method"], config["preset"])
    return {**asdict(settings), **asdict(method)}  # pyright: ignore[reportArgumentType]


def _training_defaults(config: Content, env: str) -> dict[str, Any]:
    """The preset's settings; none of a learner that only an import could tell of."""
    if not is_installed("learner", config["learner"], LEARNERS):
        return asdict(train_settings(env, config["preset"]))
    settings, learner = resolve_training(env, config["learner"], config["preset"])
    return {**asdict(settings), **asdict(learner)}  # pyright: ignore[reportArgumentType]


def _setting_options(config: Content, own: str, preset: Callable[[], dict[str, Any]]) -> list[str]:
    """Options for settings, shared ones and the method's or learner's `own`, that differ from the preset.

    Own settings without a known default are all listed. None if the preset no longer exists.
    """
    try:
        defaults = to_jsonable(preset())
    except ValueError:
        return []
    words: list[str] = []
    differing = {name: value for name, value in config["settings"].items() if value != defaults.get(name, value)}
    for name, value in {**differing, **config.get(own, {})}.items():
        if name not in defaults or value != defaults[name]:
            words += _format_option(name.replace("_", "-"), value)
    return words


def _format_option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    values: Sequence[Any] = value if isinstance(value, list) else (value,)
    return [f"--{name}", *map(str, values)]


def _environment_arguments(config: Content) -> list[str]:
    given: Mapping[str, Any] = config["env_parameters"]
    environment = _make_environment(config["env"], {})
    defaults = {} if environment is None else to_jsonable(registry.parameters_of(environment))
    return [f"{name}={json.dumps(value)}" for name, value in given.items() if value != defaults.get(name)]


def _make_environment(name: str, parameters: Mapping[str, Any]) -> Environment | None:
    """Build a registered environment; None if it is not registered or does not accept these parameters."""
    if name not in registry.names():
        return None
    try:
        return registry.make_from_record("config.json", {"env": name, "env_parameters": parameters})
    except (ValueError, TypeError):
        return None
