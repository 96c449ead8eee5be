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
    from coverset.envs.registry import make as make
    from coverset.envs.registry import names as environment_names
    from coverset.generation import generate as generate
    from coverset.measuring import evaluate as evaluate
    from coverset.policies.base import Policy as Policy
    from coverset.policies.population import Population as Population
    from coverset.policies.population import load_population as load_population
    from coverset.policies.scripted import heuristics as heuristics
    from coverset.reporting import report as report
    from coverset.study.crossplay import crossplay as crossplay
    from coverset.study.reproduction import reproduce as reproduce
    from coverset.study.tuning import tune as tune
    from coverset.training import train as train

_PUBLIC = {
    "Environment": "coverset.envs.base:Environment",
    "Policy": "coverset.policies.base:Policy",
    "Population": "coverset.policies.population:Population",
    "certify": "coverset.certification:certify_runs",
    "check_environment": "coverset.envs.conformance:check_environment",
    "crossplay": "coverset.study.crossplay:crossplay",
    "environment_names": "coverset.envs.registry:names",
    "evaluate": "coverset.measuring:evaluate",
    "export_agent": "coverset.adhoc.exported:export_agent",
    "export_policy": "coverset.adhoc.exported:export_policy",
    "generate": "coverset.generation:generate",
    "heuristics": "coverset.policies.scripted:heuristics",
    "load_agent": "coverset.adhoc.saved:load_agent",
    "load_exported": "coverset.adhoc.exported:load_exported",
    "load_population": "coverset.policies.population:load_population",
    "make": "coverset.envs.registry:make",
    "report": "coverset.reporting:report",
    "reproduce": "coverset.study.reproduction:reproduce",
    "solve": "coverset.analysis:solve",
    "train": "coverset.training:train",
    "tune": "coverset.study.tuning:tune",
}

__all__ = [
    "Environment",
    "Policy",
    "Population",
    "certify",
    "check_environment",
    "crossplay",
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
    "report",
    "reproduce",
    "solve",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'coverset' has no attribute '{name}'")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(module), attribute)
