"""The commands that would make a chapter's runs again, told from their config.json."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.envs.extensions import heuristics
from coverset.presets import generate_settings, train_settings
from coverset.reports.chapters import Chapter, Method
from coverset.reports.records import Content
from coverset.runs.storage import to_jsonable


def commands(chapter: Chapter) -> list[str]:
    """Generate, certify, train and evaluate of every method, with every setting that is not today's preset's."""
    lines = []
    for method in chapter.methods:
        directory = method.runs[0].directory
        lines.append(_generate(method, directory))
        if method.certificates():
            lines.append(shlex.join(["coverset", "certify", directory]))
        for learner, agents in method.agents.items():
            if agents:
                config = next(iter(agents.values())).config
                lines.append(_train(config, directory, chapter.env))
            if evaluations := method.evaluations.get(learner):
                record = next(iter(evaluations.values()))
                lines.append(_evaluate(record, learner, directory, method.runs[0].config))
    return lines


def _generate(method: Method, directory: str) -> str:
    config = method.runs[0].config
    words = ["coverset", "generate", config["env"], "--method", config["method"], "--preset", config["preset"]]
    words += ["--seeds", *(str(run.seed) for run in method.runs), "--out", directory]
    words += _settings(config, lambda: generate_settings(config["env"], config["method"], config["preset"]))
    if arguments := _environment_arguments(config):
        words += ["--env-args", *arguments]
    return shlex.join(words)


def _train(config: Content, directory: str, env: str) -> str:
    words = ["coverset", "train", directory, "--learner", config["learner"], "--preset", config["preset"]]
    if config["partners"] != ["teammates"]:
        words += ["--partners", *config["partners"]]
    if config["seat"]:
        words += ["--seat", str(config["seat"])]
    return shlex.join(words + _settings(config, lambda: train_settings(env, config["preset"])))


def _evaluate(record: Content, learner: str, directory: str, generated: Content) -> str:
    words = ["coverset", "evaluate", directory, "--learner", learner]
    words += ["--trials", str(record["trials"]), "--episodes", str(record["episodes"])]
    environment = _environment(generated["env"], generated["env_parameters"])
    partners = _partners([*record["partners"]])
    if environment is None or partners != [*heuristics(environment)]:
        words += ["--partners", *partners]
    return shlex.join(words)


def _partners(met: Sequence[str]) -> list[str]:
    """What `--partners` would name: members of a population are met as its name and their number."""
    names = (re.fullmatch(r"(.+) \d+", one) for one in met)
    populations = [match[1] if match and f"{match[1]} 2" in met else one for match, one in zip(names, met, strict=True)]
    return [*dict.fromkeys(populations)]


def _settings(config: Content, preset: Any) -> list[str]:
    """Options for settings that the preset would choose otherwise; none where the preset is not known any more."""
    try:
        defaults = to_jsonable(asdict(preset()))
    except ValueError:
        return []
    words: list[str] = []
    for name, value in config["settings"].items():
        if name in defaults and value != defaults[name]:
            words += _option(name.replace("_", "-"), value)
    return words


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    values: Sequence[Any] = value if isinstance(value, list) else (value,)
    return [f"--{name}", *map(str, values)]


def _environment_arguments(config: Content) -> list[str]:
    given: Mapping[str, Any] = config["env_parameters"]
    environment = _environment(config["env"], {})
    defaults = {} if environment is None else to_jsonable(registry.parameters_of(environment))
    return [f"{name}={json.dumps(value)}" for name, value in given.items() if value != defaults.get(name)]


def _environment(name: str, parameters: Mapping[str, Any]) -> Environment | None:
    """The environment; None where only an import could tell, or where it cannot be built from these parameters."""
    if name not in registry.names():
        return None
    try:
        return registry.make_from_record("config.json", {"env": name, "env_parameters": parameters})
    except (ValueError, TypeError):
        return None
