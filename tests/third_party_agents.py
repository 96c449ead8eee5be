"""Third-party agents for tests: policies, functions that make policies, and plain functions."""

import equinox as eqx
import jax.numpy as jnp

from coverset.policy import Policy


class Counting(Policy):
    """Plays action 0, 1, 2, 0, ...: the memory is its own, and nothing in it is an array to stack."""

    turns: int = eqx.field(static=True, default=3)

    def initial_memory(self):
        return jnp.int32(0)

    def act(self, key, percept, memory):
        return memory % self.turns, memory + 1


class Fixed(Policy):
    """Always the same action, held as a plain number."""

    action: int = 0

    def initial_memory(self):
        return ()

    def act(self, key, percept, memory):
        return jnp.asarray(self.action), memory


second = Fixed(1)


def made():
    return Fixed(2)


def made_for(environment):
    return Fixed(environment.num_actions[1] - 1)


def plain(observation, reward, done):
    """Action 1 at the start and after a reward of less than 5, else action 0."""
    return 1 if done and reward < 5 else 0


def make_plain():
    return plain


class Object:
    """A class of one's own whose instances are called."""

    def __call__(self, observation, reward, done):
        return int(observation.sum())


def too_far(observation, reward, done):
    return 3


def not_a_number(observation, reward, done):
    return "left"


def of_two(observation, reward):
    return 0


class Wrong(Policy):
    def initial_memory(self):
        return ()

    def act(self, key, percept, memory):
        return percept.observation @ jnp.zeros((7, 2)), memory


nothing = 4


def fails_later(observation, reward, done):
    """An action that there is at the start, none once something was earned."""
    return 0 if reward == 0 else 9


def raises(observation, reward, done):
    return {}["left"]


def raises_later(observation, reward, done):
    """Fails once something was earned, in two lines."""
    if reward > 0:
        raise KeyError("corner\nsecond line")
    return 0


def maker_raises():
    return {}["agent"]


class Growing(Fixed):
    """Remembers one number more at every step."""

    def initial_memory(self):
        return {"seen": jnp.zeros(1)}

    def act(self, key, percept, memory):
        return jnp.asarray(self.action), {"seen": jnp.append(memory["seen"], percept.reward)}


class Turning(Fixed):
    """A count that turns into a fraction."""

    def initial_memory(self):
        return jnp.int32(0)

    def act(self, key, percept, memory):
        return jnp.asarray(self.action), memory.astype(jnp.float32) * 0.5


class Branching(Fixed):
    """Plain Python where a compiled program is needed."""

    def act(self, key, percept, memory):
        return jnp.asarray(0 if percept.first else 1), memory


class Memoryless(Fixed):
    def initial_memory(self):
        raise RuntimeError("no memory here")
