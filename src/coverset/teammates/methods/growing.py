"""Growing a coverage set by probes: coverset's own method, which finds the number of members itself.

The *coverage regret* of a set S of best responses with a teammate j is max_i R_ij - max_{s in S} R_sj; S covers the
game up to a margin if no teammate has more. In every round M probes, pairs of a fresh best response and a fresh
teammate, look for such teammates side by side while the set is frozen. The rivals of probe j are all members of the set
and the probes before it. Its best response ascends R_jj, its teammate

    R_jj - lambda_j sum_i p_ij R_ij        p_ij = softmax over rivals i of R_ij / (temperature * unit)

a smooth form of the regret against its rivals. Rivals learn nothing from probe j, so that, whatever they do, both
policies of a probe ascend one common objective: there are no multipliers, and nothing to circle around. A probe depends
only on those before it, so probes settle one after the other, and several members are found in one round.

- lambda_j is 1 for every other probe. The others are *patient*: theirs is the ratio of R_jj to the rivals' return, both
  above the lowest of all pairs. Where rewards are sparse, an untrained teammate that must not help skilled rivals never
  learns to help its own best response; where they are not, a probe that looks away from the start has less to unlearn.
- Teammates start with preferences of their own (`initial_preference`). Pairs that start by playing at random all learn
  the convention that is best against a random partner.

A round lasts until the probes' returns and regrets no longer rise, and then half as long again, in which exploration
and learning rates fall. After it all pairs, members and probes alike, are measured with each other, and the set is
chosen anew: the pair with the highest return first, then again and again the one with the highest regret, until none
exceeds the margin. The run ends when no probe of a whole round has a regret above the margin. `unit` is the range of
returns so far, so that neither margin nor weights depend on the scale of the rewards or on a constant added to them.

The idea of the first set of constraints, R_ii >= R_ji + tau, is that of L-BRDiv (Rahman, Cui and Stone 2024); PAIRED
(Dennis et al. 2020) and ROTATE (Wang et al. 2025) maximise regret against one agent instead of a set.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from coverset.checks import check_at_least, check_between, check_finite, check_positive
from coverset.evaluation.cross_play import cross_play, limit_trials
from coverset.policies.network import POLICY_HEAD_SCALE, Network
from coverset.policies.population import Population
from coverset.policies.team import build_networks
from coverset.teammates.method import Frozen, Method, PairWeights, Seen, Stage, World
from coverset.teammates.networks import Networks, actor_spec
from coverset.teammates.probe_grid import ProbeGrid
from coverset.types import PRNGKey, PyTree, Scalar

if TYPE_CHECKING:
    from coverset.settings import GenerateSettings

SMALLEST_UNIT = 1e-30
WINDOW = 10
"""Updates over which returns are averaged before they are compared."""
PATIENCE = 3
"""Windows without a rise after which a round settles, at least."""
RELATIVE_PATIENCE = 0.5
"""The same as a share of the windows before the last rise: what took long to learn may take long to learn more."""
SMALLEST_RISE = 0.05
"""What counts as a rise of the best mean, as a share of the whole rise of the round."""
NOISE = 2.0
"""How many standard deviations the whole rise must exceed the noise for the round to have learned anything."""
SETTLING = 0.5
"""Length of the settling phase, as a share of what came before it."""
UNTRAINED_PAIRS = 4
"""Pairs of untrained policies that are measured for the return of random play."""


class Rise(NamedTuple):
    """Whether something still rises: means over windows of updates, compared with the best window so far."""

    updates: Int[Array, ""]
    """Updates of the round so far."""
    sums: Float[Array, "2"]
    """Of the values of the present window, and of their squares."""
    first: Scalar
    """Mean of the first window."""
    best: Scalar
    """Highest mean of a window."""
    stale: Int[Array, ""]
    """Windows since the best mean rose by much."""
    settled_at: Int[Array, ""]
    """Number of the update since which nothing has risen; the length of the longest round until then."""


class Growth(NamedTuple):
    """What the method remembers; S is the most members that the set may have, M the number of probes."""

    size: Int[Array, ""]
    """Members of the set: the first best responses of the grid, and the first of `teammates`."""
    teammates: Network
    """Of the members, stacked [S]."""
    rivals: Float[Array, "R M"]
    """lambda_j p_ij: how much each best response counts as a rival of each probe; each column sums to lambda_j."""
    regrets: Float[Array, "M"]
    """What each probe of the last round earned beyond the best member of the set at that time."""
    lowest: Scalar
    highest: Scalar
    """Range of the returns of pairs that were measured, random play among them."""
    round: Int[Array, ""]
    """Rounds that are over."""
    rise: "Rise"
    """How the probes' returns have risen in the present round."""
    complete: Bool[Array, ""]
    """Whether a whole round found nothing more."""
    finished: Bool[Array, ""]


@dataclass(frozen=True)
class Growing(Method):
    """Trains probes against a frozen set, and takes in what the set does not cover; `population_size` is its limit."""

    finds_size: ClassVar[bool] = True
    default_settings: ClassVar[Mapping[str, Any] | None] = {
        "population_size": 8,
        "total_steps": 20_000_000,
        "envs_per_pair": 1,
        "extra_self_play": 16,
        "rollout_length": 32,
        "max_rollout_episodes": 8,
        "epochs": 4,
        "minibatches": 4,
        "learning_rate": 5e-4,
        "anneal": False,
        "entropy": 0.02,
        "entropy_final": 0.002,
        "normalise_values": True,
        "advantage_scale_memory": 0.99,
        "ego_reward_share": 1.0,
        "chunk_steps": 100_000,
    }

    probes: int = 16
    """Pairs that look for uncovered teammates side by side."""
    rounds: int = 6
    """Rounds into which the steps of a run are divided, at most; it ends as soon as a round finds nothing."""
    relative_margin: float = 0.1
    """Coverage regret above which a pair is taken into the set, in units of the range of returns."""
    initial_preference: float = 1.0
    """Standard deviation of the logits of a probe's teammate before training. Near 0 all teammates start by playing at
    random and tend to learn the same; preferences of their own lead them different ways."""
    rival_temperature: float = 0.05
    """Temperature of the smooth maximum over members, in units of the range of returns."""
    measured_episodes: int = 64
    """Episodes of each pair at the end of a round; fewer where episodes are very long."""

    def __post_init__(self) -> None:
        for name in ("probes", "rounds", "measured_episodes"):
            check_at_least(name, getattr(self, name), 1)
        check_between("relative_margin", self.relative_margin, 0, 1)
        check_at_least("initial_preference", self.initial_preference, 0)
        check_finite("initial_preference", self.initial_preference)
        check_positive("rival_temperature", self.rival_temperature)

    def grid_size(self, settings: "GenerateSettings") -> tuple[int, int]:
        return settings.population_size + self.probes, self.probes

    def grid(self, settings: "GenerateSettings") -> ProbeGrid:
        # A member's environments are divided among the probes, so their number is a multiple of that of the probes.
        extra = math.ceil(settings.extra_self_play / self.probes) * self.probes
        return ProbeGrid(*self.grid_size(settings), settings.envs_per_pair, extra)

    def init(self, key: PRNGKey, world: World) -> Growth:
        s, most = world.settings, world.rows - world.columns
        spec = actor_spec(world.environment, s, 1)
        return Growth(
            size=jnp.int32(0),
            teammates=build_networks(s.network, jax.random.split(key, most), spec),
            rivals=jnp.zeros((world.rows, self.probes)),
            regrets=jnp.zeros(self.probes),
            lowest=jnp.float32(0.0),
            highest=jnp.float32(0.0),
            round=jnp.int32(0),
            rise=start_rise(self._longest_round(s)),
            complete=jnp.bool_(False),
            finished=jnp.bool_(False),
        )

    def _longest_round(self, settings: "GenerateSettings") -> int:
        """Updates after which a round starts to settle even though returns still rise."""
        steps = self.grid(settings).num_envs * settings.rollout_length * self.rounds * (1.0 + SETTLING)
        return max(1, int(settings.total_steps / steps))

    def prepare(self, key: PRNGKey, world: World, networks: Networks) -> Networks:
        """Give every teammate preferences of its own."""
        actions, scale = actor_spec(world.environment, world.settings, 1).num_outputs, self.initial_preference
        gain = jnp.full(actions, scale / POLICY_HEAD_SCALE)
        offsets = scale * jax.random.normal(key, (self.probes, actions))
        rescale = jax.vmap(lambda network, offset: network.rescale_outputs(gain, offset))
        return networks._replace(teammates=rescale(networks.teammates, offsets))

    def weights(self, state: Growth) -> PairWeights:
        own = jnp.zeros_like(state.rivals).at[-self.probes :].set(jnp.eye(self.probes))
        return PairWeights(own, own - state.rivals)

    def frozen(self, state: Growth) -> Frozen:
        rows = state.rivals.shape[0]
        return Frozen(jnp.arange(rows) < rows - self.probes, jnp.zeros(self.probes, bool))

    def update(self, state: Growth, seen: Seen) -> Growth:
        values, most = seen.pair_values, state.rivals.shape[0] - self.probes
        is_rival = self._rivals(state)
        own = jnp.diagonal(values[most:])
        lowest, highest = _range_where(
            is_rival.at[most:].set(is_rival[most:] | jnp.eye(self.probes, dtype=bool)), values
        )
        unit = jnp.maximum(jnp.maximum(highest - lowest, state.highest - state.lowest), SMALLEST_UNIT)
        shares = jax.nn.softmax(values / (self.rival_temperature * unit), axis=0, where=is_rival)
        shares = jnp.where(is_rival, shares, 0.0)
        served = jnp.where(is_rival.any(axis=0), jnp.sum(shares * values, axis=0), lowest)
        competence = jnp.clip((own - lowest) / jnp.maximum(served - lowest, SMALLEST_UNIT), 0.0, 1.0)
        is_patient = jnp.arange(self.probes) % 2 == 1
        rivals = jnp.where(is_patient, competence, 1.0)[None] * shares
        return state._replace(rivals=rivals, rise=follow_rise(state.rise, jnp.mean(2.0 * own - served)))

    def _rivals(self, state: Growth) -> Bool[Array, "R M"]:
        """Members of the set, and the probes before each probe."""
        rows = state.rivals.shape[0]
        most = rows - self.probes
        is_member = jnp.broadcast_to((jnp.arange(most) < state.size)[:, None], (most, self.probes))
        is_earlier = jnp.arange(self.probes)[:, None] < jnp.arange(self.probes)[None]
        return jnp.concatenate([is_member, is_earlier])

    def stage(self, state: Growth) -> Stage:
        progress = settling_progress(state.rise)
        return Stage(progress, progress >= 1.0, state.finished)

    def next_stage(
        self, key: PRNGKey, world: World, state: Growth, trained: Population, drawn: Population
    ) -> tuple[Growth, Population]:
        """Measure members and probes with each other, choose the set anew, and draw new probes."""
        size, most = int(state.size), world.rows - world.columns
        candidates = np.array([*range(size), *range(most, world.rows)])
        teammates = jax.tree.map(lambda *x: jnp.concatenate(x), state.teammates, trained.teammates.network)
        both = trained._replace(teammates=_with_network(trained.teammates, teammates))
        returns = self._measure(key, world, jax.tree.map(lambda x: x[candidates], both))
        lowest, highest = self._range(key, world, state, drawn, returns)
        margin = self.relative_margin * (highest - lowest)
        chosen = candidates[choose_members(returns, margin=margin, most=most)]
        regrets = measure_regrets(returns, size, floor=lowest)
        complete = size > 0 and not regrets.max() > margin
        slots = np.resize(chosen, most)
        grown = state._replace(
            size=jnp.int32(len(chosen)),
            teammates=jax.tree.map(lambda x: x[slots], teammates),
            rivals=jnp.zeros_like(state.rivals),
            regrets=jnp.asarray(regrets, jnp.float32),
            lowest=jnp.float32(lowest),
            highest=jnp.float32(highest),
            round=state.round + 1,
            rise=start_rise(self._longest_round(world.settings)),
            complete=jnp.bool_(complete),
            finished=jnp.bool_(complete),
        )
        rows = jax.tree.map(lambda old, new: jnp.concatenate([old[slots], new[most:]]), *_networks(trained, drawn))
        return grown, drawn._replace(best_responses=_with_network(drawn.best_responses, rows))

    def _measure(self, key: PRNGKey, world: World, pairs: Population) -> Float[np.ndarray, "n n"]:
        """Mean return of every best response with every teammate."""
        count = jax.tree.leaves(pairs.teammates.network)[0].shape[0]
        trials = limit_trials(self.measured_episodes, world.environment.horizon, pairs=count * count)
        played = cross_play(key, world.environment, *pairs, trials=trials)
        return np.asarray(played.returns, float)[..., 0].mean(axis=-1)

    def _range(
        self, key: PRNGKey, world: World, state: Growth, drawn: Population, returns: Float[np.ndarray, "n n"]
    ) -> tuple[float, float]:
        """Lowest and highest return of a pair so far; random play is measured in the first round."""
        known = [float(state.lowest), float(state.highest)]
        if int(state.round) == 0:
            untrained = jax.tree.map(lambda x: x[:UNTRAINED_PAIRS], drawn)
            known = [self._measure(jax.random.fold_in(key, 1), world, untrained).mean()]
        return min(*known, returns.min()), max(*known, returns.max())

    def report(self, state: Growth) -> dict[str, Array]:
        return {"round": state.round, "members": state.size, "regret": state.regrets}

    def summarise(self, state: Growth) -> dict[str, Any]:
        regret = {
            "largest": float(jnp.max(state.regrets)) if int(state.round) > 1 else None,
            "margin": self.margin(state, None),
            "probes": self.probes,
            "rounds": int(state.round),
            "complete": bool(state.complete),
        }
        return {"coverage_regret": regret}

    def margin(self, state: Growth, settings: "GenerateSettings | None") -> float:
        del settings
        return self.relative_margin * float(state.highest - state.lowest)

    def population(self, state: Growth, trained: Population) -> Population:
        members = slice(0, max(1, int(state.size)))
        teammates = _with_network(trained.teammates, state.teammates)
        return jax.tree.map(lambda x: x[members], Population(trained.best_responses, teammates))


def start_rise(longest: int) -> Rise:
    """The beginning of a round whose first phase has at most so many updates."""
    zero, low = jnp.int32(0), jnp.float32(-jnp.inf)
    return Rise(zero, jnp.zeros(2), low, low, zero, jnp.int32(longest))


def follow_rise(rise: Rise, value: Scalar) -> Rise:
    """One update later."""
    sums, updates = rise.sums + jnp.stack([value, value**2]), rise.updates + 1
    mean = sums[0] / WINDOW
    noise = jnp.sqrt(jnp.maximum(sums[1] / WINDOW - mean**2, 0.0))
    first = jnp.where(updates <= WINDOW, mean, rise.first)
    risen = mean > rise.best + SMALLEST_RISE * (rise.best - first)
    has_learned = rise.best - first > NOISE * noise
    stale = jnp.where(risen | ~has_learned, 0, rise.stale + 1)
    rising = (updates // WINDOW - stale).astype(jnp.float32)
    patience = jnp.maximum(PATIENCE, RELATIVE_PATIENCE * rising)
    settled = jnp.where(stale.astype(jnp.float32) >= patience, jnp.minimum(updates, rise.settled_at), rise.settled_at)
    after = Rise(updates, jnp.zeros(2), first, jnp.maximum(mean, rise.best), stale, settled)
    is_full = updates % WINDOW == 0
    before = rise._replace(updates=updates, sums=sums)
    return jax.tree.map(lambda new, old: jnp.where(is_full, new, old), after, before)


def settling_progress(rise: Rise) -> Scalar:
    """Progress of a round: at most 1/2 while returns rise, from there to 1 in the settling phase."""
    passed = rise.updates / rise.settled_at
    return jnp.where(passed < 1.0, 0.5 * passed, jnp.minimum(0.5 + 0.5 * (passed - 1.0) / SETTLING, 1.0))


def choose_members(returns: Float[np.ndarray, "n n"], *, margin: float, most: int) -> list[int]:
    """A set that covers all teammates at hand: the pair that earns most, then greedily those of highest regret.

    Args:
      returns: of every best response with every teammate.
      margin: regret above which a pair is taken.
      most: number of members.
    """
    own = np.diagonal(returns)
    members = [int(np.argmax(own))]
    while len(members) < most:
        regrets = own - returns[members].max(axis=0)
        best = int(np.argmax(regrets))
        if not regrets[best] > margin:
            break
        members.append(best)
    return members


def measure_regrets(returns: Float[np.ndarray, "n n"], size: int, *, floor: float) -> Float[np.ndarray, "m"]:
    """What each probe earns beyond the best of the first `size` pairs, the members, with its teammate."""
    served = returns[:size, size:].max(axis=0) if size else floor
    return np.diagonal(returns)[size:] - served


def _range_where(chosen: Bool[Array, "R M"], values: Float[Array, "R M"]) -> tuple[Scalar, Scalar]:
    return jnp.min(values, where=chosen, initial=jnp.inf), jnp.max(values, where=chosen, initial=-jnp.inf)


def _networks(trained: Population, drawn: Population) -> tuple[PyTree, PyTree]:
    return trained.best_responses.network, drawn.best_responses.network


def _with_network(policy: Any, network: Network) -> Any:
    """The same kind of policy with other networks."""
    return type(policy)(network, policy.kind, policy.spec)
