"""Fresh best responses to the teammates of a population, and fresh partners of its best responses, in one program.

Pairs play with themselves alone on a self-play grid. Of the first R pairs the best response is one of the population's
and does not learn, and the teammate is fresh; of the last C the teammate is the population's and the best response is
fresh. So row r of the grid plays with column r:

    rows       population's best responses 1..R | fresh ones for teammates 1..C
    columns    fresh partners of 1..R           | population's teammates 1..C

Half of the episodes of a fresh best response begin with steps of its teammate with other best responses of the
population, up to half of the horizon, so that it also learns what can be earned from where strangers lead.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coverset.envs.base import Environment
from coverset.policies.actor import ActorPolicy
from coverset.policies.population import Population
from coverset.policies.stacked import count_members
from coverset.teammates.method import Frozen, Prefix
from coverset.teammates.ppo import init_moments
from coverset.teammates.self_play import SelfPlay
from coverset.teammates.trainer import Trainer, TrainState
from coverset.types import PairMatrix, PRNGKey, PyTree

if TYPE_CHECKING:
    from coverset.settings import GenerateSettings


@dataclass(frozen=True)
class FreshHalves(SelfPlay):
    """Pairs of which one half is fresh and the other does not learn."""

    best_responses: int
    """R."""
    own: tuple[int, ...]
    """The population's best response to each of its C teammates."""

    @property
    def size(self) -> int:
        """Number of pairs."""
        return self.best_responses + len(self.own)

    def grid_size(self, settings: "GenerateSettings") -> tuple[int, int]:
        del settings
        return self.size, self.size

    def frozen(self, state: PairMatrix) -> Frozen:
        del state
        is_row = jnp.arange(self.size) < self.best_responses
        return Frozen(is_row, ~is_row)

    def prefix(self, state: PairMatrix) -> Prefix | None:
        """Strangers with the teammate; every part of a row's environments has another one."""
        del state
        rows = np.broadcast_to(np.arange(self.size)[:, None], (self.size, self.size)).copy()
        columns = rows.copy()
        for j, own in enumerate(self.own):
            strangers = [i for i in range(self.best_responses) if i != own]
            if strangers:
                rows[self.best_responses + j] = np.resize(strangers, self.size)
        return Prefix(jnp.asarray(rows), jnp.asarray(columns), probability=0.5, longest_share=0.5)


class Probed(NamedTuple):
    """What training found."""

    best_responses: ActorPolicy
    """To the population's teammates, stacked [C]."""
    partners: ActorPolicy
    """Of the population's best responses, stacked [R]."""
    steps: int
    """Environment steps that all probes took together."""


def train_probes(
    key: PRNGKey,
    environment: Environment,
    population: Population,
    own: tuple[int, ...],
    settings: "GenerateSettings",
    *,
    steps: int,
) -> Probed:
    """Train fresh partners of all policies of a population side by side.

    Args:
      key: of the random numbers.
      environment: a game of two players.
      population: of which no policy learns.
      own: its best response to each of its teammates.
      settings: with which the population was trained.
      steps: environment steps of all probes together.
    """
    method = FreshHalves(count_members(population.best_responses), own)
    trainer = Trainer(environment, method, _probe_settings(settings, method.size, steps))
    state = _insert(trainer.init(key), population, method.best_responses)
    advance = jax.jit(trainer.train_chunk)
    for _ in range(trainer.schedule.num_chunks):
        state, _ = advance(state)
    trained = trainer.population(state)
    return Probed(
        _select(trained.best_responses, slice(method.best_responses, None)),
        _select(trained.teammates, slice(0, method.best_responses)),
        trainer.schedule.num_updates * trainer.schedule.steps_per_update,
    )


def _probe_settings(settings: "GenerateSettings", size: int, steps: int) -> "GenerateSettings":
    """Those of the run, with as many environments for each policy."""
    envs = settings.population_size * settings.envs_per_pair + settings.extra_self_play
    return replace(
        settings,
        population_size=size,
        total_steps=steps,
        envs_per_pair=max(1, round(envs / size)),
        extra_self_play=0,
        share_pair_parameters=False,
        restart_patience=0,
        stop_patience=0,
    )


def _insert(state: TrainState, population: Population, rows: int) -> TrainState:
    """The same state with the population's policies among the networks."""
    networks = state.optimised.networks

    def put(fresh: PyTree, known: PyTree, place: slice) -> PyTree:
        return jax.tree.map(lambda new, old: new.at[place].set(old), fresh, known)

    networks = networks._replace(
        best_responses=put(networks.best_responses, population.best_responses.network, slice(0, rows)),
        teammates=put(networks.teammates, population.teammates.network, slice(rows, None)),
    )
    return state._replace(optimised=init_moments(networks))


def _select(policies: ActorPolicy, members: slice) -> ActorPolicy:
    return jax.tree.map(lambda x: x[members], policies)
