"""Training teammates that cover every convention of a cooperative game, agents trained with them, and proof.

The public names; whatever is not listed here is free to change. They load on first use, so that `import coverset` and
`coverset --help` do not wait for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coverset.adhoc.exported import export_agent as export_agent
    from coverset.adhoc.exported import export_policy as export_policy
    from coverset.adhoc.exported import load_exported as load_exported
    from coverset.adhoc.saved import load_agent as load_agent
    from coverset.analysis import solve as solve
    from coverset.certification import certify_runs as certify
    from coverset.envs.base import Environment as Environment
    from coverset.envs.conformance import check_environment as check_environment
    from coverset.envs.extensions import best_response as best_response
    from coverset.envs.extensions import describe_heuristics as describe_heuristics
    from coverset.envs.extensions import draw_board as draw_board
    from coverset.envs.extensions import draw_scene as draw_scene
    from coverset.envs.extensions import heuristics as heuristics
    from coverset.envs.extensions import oracles as oracles
    from coverset.envs.registry import make as make
    from coverset.envs.registry import names as environment_names
    from coverset.generation import generate as generate
    from coverset.measuring import evaluate as evaluate
    from coverset.policies.base import Policy as Policy
    from coverset.policies.population import Population as Population
    from coverset.policies.population import load_population as load_population
    from coverset.reporting import report as report
    from coverset.study.crossplay import crossplay as crossplay
    from coverset.study.reproduction import reproduce as reproduce
    from coverset.study.tuning import tune as tune
    from coverset.training import train as train
    from coverset.trusting import trust as trust

_PUBLIC = {
    "Environment": "coverset.envs.base:Environment",
    "Policy": "coverset.policies.base:Policy",
    "Population": "coverset.policies.population:Population",
    "best_response": "coverset.envs.extensions:best_response",
    "certify": "coverset.certification:certify_runs",
    "check_environment": "coverset.envs.conformance:check_environment",
    "crossplay": "coverset.study.crossplay:crossplay",
    "describe_heuristics": "coverset.envs.extensions:describe_heuristics",
    "draw_board": "coverset.envs.extensions:draw_board",
    "draw_scene": "coverset.envs.extensions:draw_scene",
    "environment_names": "coverset.envs.registry:names",
    "evaluate": "coverset.measuring:evaluate",
    "export_agent": "coverset.adhoc.exported:export_agent",
    "export_policy": "coverset.adhoc.exported:export_policy",
    "generate": "coverset.generation:generate",
    "heuristics": "coverset.envs.extensions:heuristics",
    "load_agent": "coverset.adhoc.saved:load_agent",
    "load_exported": "coverset.adhoc.exported:load_exported",
    "load_population": "coverset.policies.population:load_population",
    "make": "coverset.envs.registry:make",
    "oracles": "coverset.envs.extensions:oracles",
    "report": "coverset.reporting:report",
    "reproduce": "coverset.study.reproduction:reproduce",
    "solve": "coverset.analysis:solve",
    "train": "coverset.training:train",
    "trust": "coverset.trusting:trust",
    "tune": "coverset.study.tuning:tune",
}

__all__ = [
    "Environment",
    "Policy",
    "Population",
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
    "load_agent",
    "load_exported",
    "load_population",
    "make",
    "oracles",
    "report",
    "reproduce",
    "solve",
    "train",
    "trust",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'coverset' has no attribute '{name}'")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(module), attribute)
