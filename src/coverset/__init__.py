"""Training teammates that cover every convention of a cooperative game, agents trained with them, and proof.

The public names; whatever is not listed here is free to change. They load on first use, so that `import coverset` and
`coverset --help` do not wait for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from coverset.adhoc.learner import FittedLearner as FittedLearner
    from coverset.adhoc.learner import Learner as Learner
    from coverset.adhoc.learner import OnPolicyLearner as OnPolicyLearner
    from coverset.adhoc.saved import load_agent as load_agent
    from coverset.envs.base import Environment as Environment
    from coverset.envs.base import pad_observations as pad_observations
    from coverset.envs.conformance import check_environment as check_environment
    from coverset.envs.extensions import best_response as best_response
    from coverset.envs.extensions import describe_heuristics as describe_heuristics
    from coverset.envs.extensions import draw_board as draw_board
    from coverset.envs.extensions import draw_scene as draw_scene
    from coverset.envs.extensions import heuristics as heuristics
    from coverset.envs.extensions import oracles as oracles
    from coverset.envs.registry import make as make
    from coverset.envs.registry import names as environment_names
    from coverset.exported.file import export_policy as export_policy
    from coverset.exported.file import load_exported as load_exported
    from coverset.pipeline.certify import certify_runs as certify
    from coverset.pipeline.crossplay import crossplay as crossplay
    from coverset.pipeline.evaluate import evaluate as evaluate
    from coverset.pipeline.export import export_agent as export_agent
    from coverset.pipeline.generate import generate as generate
    from coverset.pipeline.inspect import inspect as inspect
    from coverset.pipeline.probe import probe as probe
    from coverset.pipeline.report import report as report
    from coverset.pipeline.train import train as train
    from coverset.policies.network import Network as Network
    from coverset.policies.population import Population as Population
    from coverset.policies.population import load_population as load_population
    from coverset.policy import Policy as Policy
    from coverset.runs.trust import trust as trust
    from coverset.settings import GenerateSettings as GenerateSettings
    from coverset.settings import TrainSettings as TrainSettings
    from coverset.solver import solve as solve
    from coverset.study.reproduce import reproduce as reproduce
    from coverset.study.tune import tune as tune
    from coverset.teammates.method import Method as Method

_PUBLIC = {
    "Environment": "coverset.envs.base:Environment",
    "FittedLearner": "coverset.adhoc.learner:FittedLearner",
    "GenerateSettings": "coverset.settings:GenerateSettings",
    "Learner": "coverset.adhoc.learner:Learner",
    "Method": "coverset.teammates.method:Method",
    "Network": "coverset.policies.network:Network",
    "OnPolicyLearner": "coverset.adhoc.learner:OnPolicyLearner",
    "Policy": "coverset.policy:Policy",
    "Population": "coverset.policies.population:Population",
    "TrainSettings": "coverset.settings:TrainSettings",
    "best_response": "coverset.envs.extensions:best_response",
    "certify": "coverset.pipeline.certify:certify_runs",
    "check_environment": "coverset.envs.conformance:check_environment",
    "crossplay": "coverset.pipeline.crossplay:crossplay",
    "describe_heuristics": "coverset.envs.extensions:describe_heuristics",
    "draw_board": "coverset.envs.extensions:draw_board",
    "draw_scene": "coverset.envs.extensions:draw_scene",
    "environment_names": "coverset.envs.registry:names",
    "evaluate": "coverset.pipeline.evaluate:evaluate",
    "export_agent": "coverset.pipeline.export:export_agent",
    "export_policy": "coverset.exported.file:export_policy",
    "generate": "coverset.pipeline.generate:generate",
    "heuristics": "coverset.envs.extensions:heuristics",
    "inspect": "coverset.pipeline.inspect:inspect",
    "load_agent": "coverset.adhoc.saved:load_agent",
    "load_exported": "coverset.exported.file:load_exported",
    "load_population": "coverset.policies.population:load_population",
    "make": "coverset.envs.registry:make",
    "oracles": "coverset.envs.extensions:oracles",
    "pad_observations": "coverset.envs.base:pad_observations",
    "probe": "coverset.pipeline.probe:probe",
    "report": "coverset.pipeline.report:report",
    "reproduce": "coverset.study.reproduce:reproduce",
    "solve": "coverset.solver:solve",
    "train": "coverset.pipeline.train:train",
    "trust": "coverset.runs.trust:trust",
    "tune": "coverset.study.tune:tune",
}

__all__ = [
    "Environment",
    "FittedLearner",
    "GenerateSettings",
    "Learner",
    "Method",
    "Network",
    "OnPolicyLearner",
    "Policy",
    "Population",
    "TrainSettings",
    "best_response",
    "certify",
    "check_environment",
    "crossplay",
    "describe_heuristics",
    "draw_board",
    "draw_scene",
    "environment_names",
    "evaluate",
    "export_agent",
    "export_policy",
    "generate",
    "heuristics",
    "inspect",
    "load_agent",
    "load_exported",
    "load_population",
    "make",
    "oracles",
    "probe",
    "report",
    "reproduce",
    "solve",
    "train",
    "trust",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("coverset")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'coverset' has no attribute '{name}'")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
