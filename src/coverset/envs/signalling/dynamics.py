"""Signalling: a sender names symbols by messages, a receiver presses buttons, and nobody has agreed on words.

In every step seat 0 sees a symbol and sends a message; seat 1 sees the message of the step before and presses a button.
A button pays 1 if it is that of the symbol for which the message was sent. Symbols are drawn anew in every step. With
n symbols, messages and buttons there are n! conventions, the permutations; a pair that shares one earns horizon - 1.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from coverset.checks import check_at_least, check_between
from coverset.envs.base import Environment, time_limit
from coverset.policy import Policy
from coverset.types import Actions, Observations, Outcome, PRNGKey

UNKNOWN = -1
MOST_SYMBOLS = 5
"""With more, the table of permutations would have more than 120 rows."""


class SignallingState(NamedTuple):
    """The present symbol, and what was sent and pressed so far."""

    symbol: Int[Array, ""]
    signalled: Int[Array, ""]
    """The symbol of the step before; -1 in the first step."""
    message: Int[Array, ""]
    """The message of the step before; -1 in the first step."""
    sent: Int[Array, "n"]
    """The last message for each symbol; -1 for a symbol that has not been seen."""
    pressed: Int[Array, "n"]
    """The last button for each message; -1 for a message that has not been received."""
    time: Int[Array, ""]


@dataclass(frozen=True)
class Signalling(Environment):
    """Seat 0 names symbols by messages, and seat 1 presses their buttons: nobody has agreed on the words."""

    symbols: int = 3
    """Number of symbols, of messages and of buttons."""
    horizon: int = 8

    def __post_init__(self) -> None:
        check_between("symbols", self.symbols, 2, MOST_SYMBOLS)
        check_at_least("horizon", self.horizon, 2, "so that a message can be answered")

    @property
    def observation_size(self) -> int:
        return self.symbols

    @property
    def num_actions(self) -> tuple[int, ...]:
        return self.symbols, self.symbols

    @property
    def seats_alike(self) -> bool:
        return False

    def reset(self, key: PRNGKey) -> SignallingState:
        nothing = jnp.full(self.symbols, UNKNOWN, jnp.int32)
        return SignallingState(
            symbol=jax.random.randint(key, (), 0, self.symbols),
            signalled=jnp.int32(UNKNOWN),
            message=jnp.int32(UNKNOWN),
            sent=nothing,
            pressed=nothing,
            time=jnp.int32(0),
        )

    def step(self, key: PRNGKey, state: SignallingState, actions: Actions) -> Outcome:
        message, button = actions[0].astype(jnp.int32), actions[1].astype(jnp.int32)
        answers = state.message != UNKNOWN
        pressed = jnp.where(answers, state.pressed.at[state.message].set(button), state.pressed)
        after = SignallingState(
            symbol=jax.random.randint(key, (), 0, self.symbols),
            signalled=state.symbol,
            message=message,
            sent=state.sent.at[state.symbol].set(message),
            pressed=pressed,
            time=state.time + 1,
        )
        reward = (answers & (button == state.signalled)).astype(jnp.float32)
        never = jnp.bool_(False)
        return Outcome(after, reward, never, time_limit(after.time, self.horizon, never))

    def observe(self, state: SignallingState) -> Observations:
        shown = jnp.stack([state.symbol, state.message])
        return jax.nn.one_hot(shown, self.symbols, dtype=jnp.float32)

    def render(self, state: SignallingState, seat: int | None = None) -> str:
        message = "no message yet" if int(state.message) == UNKNOWN else f"message {int(state.message) + 1}"
        lines = {0: f"symbol {int(state.symbol) + 1}", 1: message}
        return "\n".join(line for who, line in lines.items() if seat in (None, who))

    @property
    def permutations(self) -> Int[np.ndarray, "c n"]:
        """The message that each convention has for each symbol."""
        return np.array(list(itertools.permutations(range(self.symbols))))

    @property
    def conventions(self) -> tuple[str, ...]:
        return tuple("messages " + " ".join(str(m + 1) for m in messages) for messages in self.permutations)

    @property
    def convention_payoffs(self) -> tuple[tuple[float, ...], ...]:
        agreed = (self.permutations[:, None] == self.permutations[None]).mean(axis=-1)
        return tuple(tuple(row) for row in ((self.horizon - 1) * agreed).tolist())

    def convention(self, state: SignallingState, seat: int) -> Int[Array, ""]:
        """The only permutation that agrees with everything a seat has sent or pressed."""
        messages = self.permutations
        codes, followed = (messages, state.sent) if seat == 0 else (np.argsort(messages, axis=-1), state.pressed)
        agrees = jnp.all((followed[None] == UNKNOWN) | (jnp.asarray(codes, jnp.int32) == followed[None]), axis=-1)
        return jnp.where(jnp.sum(agrees) == 1, jnp.argmax(agrees), len(messages)).astype(jnp.int32)

    def heuristics(self) -> Mapping[str, Policy]:
        from coverset.envs.signalling.heuristics import list_heuristics

        return {name: policy for name, (policy, _) in list_heuristics(self).items()}

    def describe_heuristics(self) -> Mapping[str, str]:
        from coverset.envs.signalling.heuristics import list_heuristics

        return {name: words for name, (_, words) in list_heuristics(self).items()}
