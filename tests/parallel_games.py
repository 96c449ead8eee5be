"""Small PettingZoo environments, as somebody else would write them: everything happens in place, in numpy."""

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from coverset.adapters.replay import PROBE_SEED


class Guessing(ParallelEnv):
    """A number is drawn at the start and at every step; whoever names it earns it. One agent sees it, one does not.

    Actions count from 1. The episode terminates when both name the number in the same step, and is truncated by itself
    after `limit` steps.
    """

    metadata = {"name": "guessing", "render_modes": []}  # noqa: RUF012
    made = 0

    def __init__(self, numbers: int = 3, limit: int = 6) -> None:
        type(self).made += 1
        self.numbers, self.limit = numbers, limit
        self.possible_agents = ["seer", "guesser"]
        self.agents: list[str] = []
        self._actions = {agent: spaces.Discrete(numbers, start=1) for agent in self.possible_agents}
        self._observations = {
            "seer": spaces.Box(0, 99, (2, 1), np.int64),
            "guesser": spaces.Box(0, 99, (1,), np.float32),
        }

    def observation_space(self, agent):
        return self._observations[agent]

    def action_space(self, agent):
        return self._actions[agent]

    def reset(self, seed=None, options=None):
        self.random = np.random.default_rng(seed)
        self.time, self.agents = 0, list(self.possible_agents)
        self._draw()
        return self._seen(), {agent: {} for agent in self.agents}

    def _draw(self):
        self.number = int(self.random.integers(1, self.numbers + 1))

    def _seen(self):
        return {
            "seer": np.array([[self.number], [self.time]]),
            "guesser": np.array([self.time], np.float32),
        }

    def step(self, actions):
        assert self.agents, "stepped after the end"
        rewards = {agent: float(self.number) * (action == self.number) for agent, action in actions.items()}
        over = all(action == self.number for action in actions.values())
        self.time += 1
        self._draw()
        agents = self.agents
        ends = [dict.fromkeys(agents, over), dict.fromkeys(agents, self.time >= self.limit)]
        if over or self.time >= self.limit:
            self.agents = []
        return self._seen(), rewards, *ends, {agent: {} for agent in agents}


class Continuous(Guessing):
    def action_space(self, agent):
        return spaces.Box(-1, 1, (2,))


class Labelled(Guessing):
    def observation_space(self, agent):
        return spaces.Dict({"number": spaces.Box(0, 1, (2,)), "colour": spaces.Discrete(3)})


class Bidding(ParallelEnv):
    """Three agents with 2, 3 and 4 actions bid; each earns its bid less the mean of all. Nobody may bid alike twice.

    `where` says where masks stand: under `info` or `observation`, or `late`, in infos but not at the start. The agent
    `c` leaves after `stay` steps; the others are truncated after 5.
    """

    metadata = {"name": "bidding", "render_modes": []}  # noqa: RUF012

    def __init__(self, where: str = "info", stay: int = 5, short: bool = False) -> None:
        self.where, self.stay, self.short = where, stay, short
        self.possible_agents = ["a", "b", "c"]
        self.agents: list[str] = []
        self.numbers = {"a": 2, "b": 3, "c": 4}

    def action_space(self, agent):
        return spaces.Discrete(self.numbers[agent])

    def observation_space(self, agent):
        box = spaces.Box(-9, 9, (self.numbers[agent],))
        mask = spaces.MultiBinary(self.numbers[agent])
        return spaces.Dict({"observation": box, "action_mask": mask}) if self.where == "observation" else box

    def reset(self, seed=None, options=None):
        self.agents, self.last, self.time = list(self.possible_agents), {}, 0
        self.offset = np.random.default_rng(seed).integers(5)
        return self._observe(), self._inform()

    def mask(self, agent):
        mask = np.arange(self.numbers[agent] - self.short) != self.last.get(agent, -1)
        return mask.astype(np.int8)

    def _observe(self):
        seen = {agent: np.full(self.numbers[agent], self.offset - self.time, np.float32) for agent in self.agents}
        if self.where == "observation":
            return {agent: {"observation": one, "action_mask": self.mask(agent)} for agent, one in seen.items()}
        return seen

    def _inform(self):
        given = self.where == "info" or (self.where == "late" and self.time > 0)
        return {agent: {"action_mask": self.mask(agent)} if given else {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents), "those who have left must not act"
        assert all(self.mask(agent)[action] for agent, action in actions.items() if not self.short), "illegal"
        rewards = {agent: float(action) - np.mean(list(actions.values())) for agent, action in actions.items()}
        self.time, self.last = self.time + 1, dict(actions)
        leaves = {agent: agent == "c" and self.time == self.stay < 5 for agent in self.agents}
        stops = dict.fromkeys(self.agents, self.time == 5)
        seen, infos = self._observe(), self._inform()
        self.agents = [agent for agent in self.agents if not (leaves[agent] or stops[agent])]
        return seen, rewards, leaves, stops, infos


class Forgetful(Guessing):
    """Its seed decides nothing."""

    entropy = np.random.default_rng(0)

    def reset(self, seed=None, options=None):
        return super().reset(int(self.entropy.integers(2**31)), options)


class Lottery(Guessing):
    """Its last reward of all is drawn without regard to the seed."""

    entropy = np.random.default_rng(0)

    def step(self, actions):
        seen, rewards, *ends = super().step(actions)
        if not self.agents:
            rewards = dict.fromkeys(rewards, float(self.entropy.random()))
        return seen, rewards, *ends


class Broken(Guessing):
    """Breaks its own rules in the way that `fault` names."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def observation_space(self, agent):
        if self.fault == "no space":
            raise KeyError(agent)
        return spaces.Discrete(9) if self.fault == "below" else super().observation_space(agent)

    def reset(self, seed=None, options=None):
        if self.fault == "no start":
            raise RuntimeError("no start\nsecond line")
        self.late = seed != PROBE_SEED
        start = super().reset(seed, options)
        return start[0] if self.fault == "bare" else start

    def _seen(self):
        seen = super()._seen()
        changes = {
            "long": {"guesser": np.zeros(7, np.float32)},
            "short": {"seer": np.array([[1]])},
            "blind": {"guesser": np.array([np.nan], np.float32)},
            "no whole number": {"seer": np.array([[np.nan], [0]])},
            "text": {"guesser": "left"},
            "below": {"seer": 3, "guesser": -1},
        }
        return {"seer": seen["seer"]} if self.fault == "missing" else seen | changes.get(self.fault, {})

    def step(self, actions):
        if self.fault == "late" and self.late:
            raise RuntimeError("no move\nsecond line")
        seen, rewards, *ends = super().step(actions)
        changes = {"unpaid": math.nan, "paid in words": "much"}
        rewards["guesser"] = changes.get(self.fault, rewards["guesser"])
        if self.fault == "not all rewards":
            del rewards["guesser"]
        if self.fault == "one end":
            ends[0] = False
        return (seen, rewards, *ends)[: 4 if self.fault == "four" else 5]


class Homeless(ParallelEnv):
    """Nobody plays it."""


def no_environment() -> Any:
    return object()
