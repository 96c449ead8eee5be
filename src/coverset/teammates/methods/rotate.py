"""ROTATE (Wang et al. 2025): teammates that an ad hoc agent serves badly and could serve well, one round after another.

Round n has two phases. First a fresh teammate c and its best response b learn, while the ego e is frozen: c maximises
the ego's cooperative regret,

    w R_bc + S_bc - R_ec

and b maximises w R_bc + S_bc. S_bc is the return of b and c from states to which play of the ego with c has led, up to
a random step: a teammate that ruins the game whenever it meets the ego loses there. Then c joins the teammates of the
rounds before, and the ego learns with all of them, equally often. There are K rounds, of equal length. Rows of the
grid are e and b, columns the K teammates; best responses and teammates have weights of their own.

Self-play from the start and from the ego's states share the cell (b, c): an episode begins with the ego with
probability 1 / (1 + w), and the cell's weight is 1 + w.

Saved are the best responses of all rounds, and after them the ego; the teammates of all rounds.

Differs from the source: on the ego's own states it also adds the value that b would have there to the return of c, and
on those of self-play subtracts the ego's; we leave both out, so that regret is that of whole episodes from the states
at which they begin. The ego has the networks of all other policies, and starts each phase with a fresh optimiser.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from coverset.checks import check_finite, check_positive
from coverset.policies.network import Network
from coverset.policies.population import Population
from coverset.policies.team import build_networks
from coverset.teammates.ego_grid import BEST_RESPONSE, EGO, EgoGrid
from coverset.teammates.method import Frozen, Method, PairWeights, Prefix, Seen, Stage, World
from coverset.teammates.methods.comedi import check_stages, stage_end, timed_stage
from coverset.teammates.networks import actor_spec
from coverset.types import PRNGKey

if TYPE_CHECKING:
    from coverset.settings import GenerateSettings


class Rounds(NamedTuple):
    """What the method remembers; K is the number of rounds."""

    round: Int[Array, ""]
    """n, from 0."""
    ego_learns: Bool[Array, ""]
    """Whether this is the second phase of the round."""
    updates: Int[Array, ""]
    """Of the run so far."""
    start: Int[Array, ""]
    end: Int[Array, ""]
    """Updates between which the present phase lasts."""
    best_responses: Network
    """Of the rounds that are over, stacked [K]; the others are untrained."""
    ego_values: Float[Array, "K"]
    """The critic's estimate of the ego's return with every teammate."""
    best_response_values: Float[Array, "K"]
    """The same of the present best response."""


@dataclass(frozen=True)
class ROTATE(Method):
    """Regret of an ad hoc agent, alternately maximised by a teammate and minimised by the agent."""

    preset_changes: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"restart_patience": 0, "stop_patience": 0, "extra_self_play": 0, "share_pair_parameters": False}
    )
    """The grid is not square."""

    self_play_weight: float = 1.0
    """Weight of the teammate's return with its best response against the ego's: w, 1 to 3 in the source."""
    ego_share: float = 0.25
    """Share of every round in which the ego learns."""

    def __post_init__(self) -> None:
        check_positive("self_play_weight", self.self_play_weight)
        check_finite("self_play_weight", self.self_play_weight)
        if not 0.0 < self.ego_share < 1.0:
            raise ValueError(f"ego_share must lie between 0 and 1, without both, got {self.ego_share}.")

    def grid_size(self, settings: "GenerateSettings") -> tuple[int, int]:
        return 2, settings.population_size

    def grid(self, settings: "GenerateSettings") -> EgoGrid:
        return EgoGrid(*self.grid_size(settings), settings.envs_per_pair, settings.extra_self_play)

    def check(self, world: World) -> None:
        check_stages(self, world, world.columns / min(self.ego_share, 1.0 - self.ego_share))

    def init(self, key: PRNGKey, world: World) -> Rounds:
        s, nothing = world.settings, jnp.int32(0)
        keys = jax.random.split(key, world.columns)
        return Rounds(
            round=nothing,
            ego_learns=jnp.bool_(False),
            updates=nothing,
            start=nothing,
            end=self._end(world, 0, ego_learns=False),
            best_responses=build_networks(s.network, keys, actor_spec(world.environment, s, 0)),
            ego_values=jnp.zeros(world.columns),
            best_response_values=jnp.zeros(world.columns),
        )

    def _end(self, world: World, number: int, *, ego_learns: bool) -> Int[Array, ""]:
        return stage_end(self, world, (number + (1.0 if ego_learns else 1.0 - self.ego_share)) / world.columns)

    def weights(self, state: Rounds) -> PairWeights:
        size = state.ego_values.shape[0]
        present = jax.nn.one_hot(state.round, size)
        known = (jnp.arange(size) <= state.round).astype(jnp.float32)
        of_pair = 1.0 + self.self_play_weight
        ego = jnp.where(state.ego_learns, known, 0.0)
        rows = jnp.zeros((2, size)).at[EGO].set(ego).at[BEST_RESPONSE].set(of_pair * present)
        columns = jnp.zeros((2, size)).at[EGO].set(-present).at[BEST_RESPONSE].set(of_pair * present)
        return PairWeights(rows, columns)

    def frozen(self, state: Rounds) -> Frozen:
        present = jnp.arange(state.ego_values.shape[0]) == state.round
        return Frozen(jnp.stack([~state.ego_learns, state.ego_learns]), ~present | state.ego_learns)

    def prefix(self, state: Rounds) -> Prefix:
        """The best response takes over from the ego, with the teammate of the round."""
        size = state.ego_values.shape[0]
        rows, columns = jnp.meshgrid(jnp.arange(2), jnp.arange(size), indexing="ij")
        begun = (rows == BEST_RESPONSE) & (columns == state.round)
        probability = 1.0 / (1.0 + self.self_play_weight)
        return Prefix(jnp.where(begun, EGO, rows), columns, probability=probability)

    def update(self, state: Rounds, seen: Seen) -> Rounds:
        return state._replace(
            updates=state.updates + 1,
            ego_values=seen.pair_values[EGO],
            best_response_values=seen.pair_values[BEST_RESPONSE],
        )

    def stage(self, state: Rounds) -> Stage:
        is_last = state.ego_learns & (state.round == state.ego_values.shape[0] - 1)
        return timed_stage(state.updates, state.start, state.end, is_last)

    def next_stage(
        self, key: PRNGKey, world: World, state: Rounds, trained: Population, drawn: Population
    ) -> tuple[Rounds, Population]:
        """After a teammate, the ego; after the ego, a fresh best response for the next teammate."""
        del key
        number, ego_learns = int(state.round), bool(state.ego_learns)
        rows = trained.best_responses.network
        best_responses = jax.tree.map(
            lambda kept, now: kept.at[number].set(now[BEST_RESPONSE]), state.best_responses, rows
        )
        if ego_learns:
            number += 1
            rows = jax.tree.map(
                lambda old, new: jnp.stack([old[EGO], new[BEST_RESPONSE]]), rows, drawn.best_responses.network
            )
        following = state._replace(
            round=jnp.int32(number),
            ego_learns=jnp.bool_(not ego_learns),
            start=state.updates,
            end=self._end(world, number, ego_learns=not ego_learns),
            best_responses=state.best_responses if ego_learns else best_responses,
        )
        return following, trained._replace(best_responses=_with_network(trained.best_responses, rows))

    def report(self, state: Rounds) -> dict[str, Array]:
        return {
            "round": state.round + 1,
            "ego_learns": state.ego_learns.astype(jnp.int32),
            "ego_return": state.ego_values,
            "regret": state.best_response_values[state.round] - state.ego_values[state.round],
        }

    def population(self, state: Rounds, trained: Population) -> Population:
        """The best responses of all rounds and, after them, the ego."""
        network = jax.tree.map(
            lambda kept, now: jnp.concatenate([kept, now[EGO][None]]),
            state.best_responses,
            trained.best_responses.network,
        )
        return trained._replace(best_responses=_with_network(trained.best_responses, network))


def _with_network(policy: Any, network: Network) -> Any:
    """The same kind of policy with other networks."""
    return type(policy)(network, policy.kind, policy.spec)
