"""Games that keep the contract of `initial_states` in odd ways, and games that break it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coverset.envs.base import Environment
from coverset.types import Outcome


class Lit(NamedTuple):
    """Which of three lamps is lit, and the time."""

    lamp: Any
    time: Any


@dataclass(frozen=True)
class Lamps(Environment):
    """Seat 0 sees which lamp is lit, seat 1 does not; a step pays 1 if both press it, and seat 0 moves the light.

    Subclasses change one thing each. A state is whatever `pack` makes of lamp and time.
    """

    horizon: int = 6

    @property
    def observation_size(self):
        return 3

    @property
    def num_actions(self):
        return 3, 3

    def pack(self, lamp, time):
        return Lit(lamp, time)

    def unpack(self, state):
        return state

    def reset(self, key):
        return self.pack(jax.random.randint(key, (), 0, 3), jnp.int32(0))

    def initial_states(self):
        return jax.vmap(self.pack)(jnp.arange(3), jnp.zeros(3, jnp.int32)), np.full(3, 1 / 3)

    def pay(self, key, lamp, time, actions):
        return jnp.all(actions == lamp).astype(jnp.float32)

    def limit(self, time):
        return time >= self.horizon

    def step(self, key, state, actions):
        lamp, time = self.unpack(state)
        reward = self.pay(key, lamp, time, actions)
        after = self.pack((lamp + actions[0]) % 3, time + 1)
        return Outcome(after, reward, jnp.bool_(False), self.limit(time + 1))

    def observe(self, state):
        lamp, _ = self.unpack(state)
        return jnp.stack([jax.nn.one_hot(lamp, 3), jnp.ones(3)])

    def render(self, state):
        return str(state)


class Steps(NamedTuple):
    lamp: Any
    steps: Any


class NoTime(Lamps):
    """The step counter is called something else, and pay is random."""

    def pack(self, lamp, time):
        return Steps(lamp, time)

    def pay(self, key, lamp, time, actions):
        return jax.random.uniform(key)


class RandomDict(Lamps):
    """A dict as state, and random pay."""

    def pack(self, lamp, time):
        return {"lamp": lamp, "time": time}

    def unpack(self, state):
        return state["lamp"], state["time"]

    def pay(self, key, lamp, time, actions):
        return super().pay(key, lamp, time, actions) * jax.random.bernoulli(key).astype(jnp.float32)


class Jackpot(Lamps):
    def pay(self, key, lamp, time, actions):
        return super().pay(key, lamp, time, actions) + jnp.where(time == 1, 100.0, 0.0)


class Early(Lamps):
    def limit(self, time):
        return time >= self.horizon - 1


class TellsTime(Lamps):
    def observe(self, state):
        return super().observe(state).at[1].set(jax.nn.one_hot(state.time % 3, 3))


class OtherReset(Lamps):
    def reset(self, key):
        return self.pack(jnp.int32(7), jnp.int32(0))


class Lottery(Lamps):
    def pay(self, key, lamp, time, actions):
        return super().pay(key, lamp, time, actions) + jnp.where(jax.random.uniform(key) < 1 / 30, 1000.0, 0.0)


class Signal(NamedTuple):
    symbol: Any
    signalled: Any
    message: Any
    time: Any


@dataclass(frozen=True)
class Signalling(Environment):
    """Seat 0 sees a symbol and sends a message, seat 1 sees the last one and presses a button; symbols are redrawn."""

    horizon: int = 8

    @property
    def observation_size(self):
        return 3

    @property
    def num_actions(self):
        return 3, 3

    def reset(self, key):
        return Signal(jax.random.randint(key, (), 0, 3), jnp.int32(0), jnp.int32(0), jnp.int32(0))

    def initial_states(self):
        zeros = jnp.zeros(3, jnp.int32)
        return Signal(jnp.arange(3), zeros, zeros, zeros), np.full(3, 1 / 3)

    def step(self, key, state, actions):
        reward = (actions[1] == state.signalled).astype(jnp.float32)
        time = state.time + 1
        after = Signal(jax.random.randint(key, (), 0, 3), state.symbol, actions[0].astype(jnp.int32), time)
        return Outcome(after, reward, jnp.bool_(False), time >= self.horizon)

    def observe(self, state):
        return jax.nn.one_hot(jnp.stack([state.symbol, state.message]), 3)

    def render(self, state):
        return str(state)


class FloatCountdown(Lamps):
    """A tuple as state, whose step counter runs down from the horizon in halves."""

    def pack(self, lamp, time):
        return lamp, 0.5 * (self.horizon - time).astype(jnp.float32)

    def unpack(self, state):
        return state[0], self.horizon - (2 * state[1]).astype(jnp.int32)

    def step(self, key, state, actions):
        outcome = super().step(key, state, actions)
        left = state[1] - 0.5
        return outcome._replace(state=(outcome.state[0], left), truncated=left <= 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TwoClocks:
    hours: Any
    lamp: Any
    minutes: Any


class Clocks(Lamps):
    """A dataclass as state, with two counters that make one step counter."""

    def pack(self, lamp, time):
        return TwoClocks(time // 2, lamp, time % 2)

    def unpack(self, state):
        return state.lamp, 2 * state.hours + state.minutes


@dataclass(frozen=True)
class Switchable(Lamps):
    """Noise that a parameter turns off."""

    noise: float = 0.0

    def pay(self, key, lamp, time, actions):
        noisy = jax.lax.cond(self.noise > 0, lambda: jax.random.uniform(key), lambda: jnp.float32(0.0))
        return super().pay(key, lamp, time, actions) + jnp.where(self.noise > 0, noisy + jax.random.normal(key), 0.5)


class KeyInState(Lamps):
    def pack(self, lamp, time):
        return {"lit": Lit(lamp, time), "key": jax.random.key(0)}

    def unpack(self, state):
        return state["lit"]


class SeedInState(Lamps):
    """A raw key travels in the state and is split in every step."""

    def reset(self, key):
        return Lit(jax.random.key_data(key), jnp.int32(0))

    def initial_states(self):
        seeds = jax.vmap(lambda seed: jax.random.key_data(jax.random.key(seed)))(jnp.arange(3))
        return Lit(seeds, jnp.zeros(3, jnp.int32)), np.full(3, 1 / 3)

    def step(self, key, state, actions):
        seed, after = jax.random.split(jax.random.wrap_key_data(state.lamp))
        outcome = super().step(key, Lit(jax.random.randint(seed, (), 0, 3), state.time), actions)
        return outcome._replace(state=Lit(jax.random.key_data(after), state.time + 1))

    def observe(self, state):
        return jnp.ones((2, 3))


class FixedSeed(SeedInState):
    """As `SeedInState`, always from one seed: pseudo-random, and yet a sequence that can be enumerated."""

    def reset(self, key):
        return Lit(jax.random.key_data(jax.random.key(5)), jnp.int32(0))

    def initial_states(self):
        return jax.tree.map(lambda x: x[None], self.reset(None)), np.ones(1)


class Biased(Lamps):
    """The first lamp is lit a little more often than listed."""

    def reset(self, key):
        return self.pack(jax.random.choice(key, 3, p=jnp.array([0.37, 0.33, 0.3])), jnp.int32(0))


class Repeated(Lamps):
    """Starts are listed twice, and some are listed that never happen."""

    def initial_states(self):
        lamps = jnp.array([0, 1, 2, 2, 0, 1])
        return jax.vmap(self.pack)(lamps, jnp.zeros(6, jnp.int32)), np.array([1 / 3, 1 / 6, 1 / 4, 1 / 12, 0.0, 1 / 6])


CHANCES = np.random.default_rng(0)


class Outside(Lamps):
    def pay(self, key, lamp, time, actions):
        drawn = jax.ShapeDtypeStruct((), jnp.float32)
        return jax.pure_callback(lambda _: np.float32(CHANCES.random()), drawn, lamp, vmap_method="sequential")


class TracedChance(Lamps):
    def pay(self, key, lamp, time, actions):
        return jnp.float32(CHANCES.random())


class NotANumber(Lamps):
    def pay(self, key, lamp, time, actions):
        return jnp.where((lamp == 2) & (actions[0] == 1), jnp.nan, 1.0)


class Endless(Lamps):
    def limit(self, time):
        return jnp.bool_(False)


@dataclass(frozen=True)
class Overflowing(Lamps):
    """An eight-bit step counter that never reaches the horizon."""

    horizon: int = 300

    def pack(self, lamp, time):
        return Lit(lamp, time.astype(jnp.uint8))

    def limit(self, time):
        return time.astype(jnp.int32) >= self.horizon


class Packed(Lamps):
    """One array is the whole state."""

    def pack(self, lamp, time):
        return jnp.stack([lamp, time])


class LoopedChance(Lamps):
    """The key only decides how often a loop runs."""

    def pay(self, key, lamp, time, actions):
        rounds = jax.random.randint(key, (), 0, 3)
        return jax.lax.while_loop(lambda at: at[0] < rounds, lambda at: (at[0] + 1, at[1] + 1.0), (0, 0.0))[1]


class Walk(Lamps):
    """No step counter: pressing together ends the game, and so does the lamp, which runs to 5 by itself."""

    def step(self, key, state, actions):
        lamp = state.lamp + 1
        together = actions[0] == actions[1]
        after = Lit(lamp, state.time)
        reward = lamp.astype(jnp.float32) * together.astype(jnp.float32)
        return Outcome(after, reward, together, (lamp >= 5) & ~together)

    def observe(self, state):
        return jnp.stack([jax.nn.one_hot(state.lamp, 3), jnp.ones(3)])


class Fuel(Lamps):
    """A hidden reserve that only time drains decides the pay."""

    def pack(self, lamp, time):
        return {"lamp": lamp, "fuel": 10 - 2 * time, "time": time}

    def unpack(self, state):
        return state["lamp"], state["time"]

    def step(self, key, state, actions):
        outcome = super().step(key, state, actions)
        return outcome._replace(reward=outcome.reward * jnp.maximum(state["fuel"], 3).astype(jnp.float32))


class Huge(Lamps):
    """Every reward is finite; their sum is not."""

    def pay(self, key, lamp, time, actions):
        return jnp.float32(3e38)


CALLS = []


class Moody(Lamps):
    """Pays more each time it is traced, from the fourth time on."""

    def pay(self, key, lamp, time, actions):
        CALLS.append(time)
        return super().pay(key, lamp, time, actions) + max(0.0, len(CALLS) - 3.0)


CHANCE = "its step must be deterministic, but .* may depend on the random key; draw in reset"
REFUSED = (
    (NoTime(), CHANCE),
    (RandomDict(), CHANCE),
    (OtherReset(), r"20,000 of 20,000 draws of reset are states that initial_states does not list"),
    (Lottery(), CHANCE),
    (Signalling(), CHANCE),
    (Switchable(noise=0.1), CHANCE),
    (LoopedChance(), CHANCE),
    (KeyInState(), r"its state\['key'\] is a random key"),
    (SeedInState(), "that initial_states does not list"),
    (Biased(), r"of 20,000 draws of reset .* whose probability in initial_states, 0.3333, stands for 6,667"),
    (Outside(), "its methods call pure_callback"),
    (TracedChance(), "tracing it twice gives two programs"),
    (NotANumber(), "its step pays nan in a state that can be reached"),
    (Endless(), "some episodes continue after its horizon, 6 steps"),
    (Overflowing(), "some episodes continue after its horizon, 300 steps"),
)
"""Games that break the contract, and what is said of them."""
RIGHT = (
    (Lamps(), 3),
    (FloatCountdown(), 3),
    (Clocks(), 3),
    (Switchable(), 3),
    (Repeated(), 3),
    (Lamps(horizon=1), 3),
    (Jackpot(), 3 + 18),
    (Early(), 3 + 15),
    (TellsTime(), 3 + 18),
    (Packed(), 3 + 18),
    (Fuel(), 3 + 18),
    (FixedSeed(), 7),
    (Walk(), 6),
)
"""Games that keep it, with the number of their joint states: with time in them where time matters."""
