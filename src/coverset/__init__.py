"""Training teammates that cover every convention of a cooperative game, found by L-BRDiv."""

from coverset.envs.base import Environment
from coverset.envs.registry import make
from coverset.envs.registry import names as environment_names
from coverset.generate import generate
from coverset.policies.base import Policy
from coverset.policies.population import Population, load_population

__all__ = ["Environment", "Policy", "Population", "environment_names", "generate", "load_population", "make"]
