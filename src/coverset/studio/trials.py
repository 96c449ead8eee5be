"""Trials of a person with one partner: several episodes, the partner's memory kept, so that one feels it adapt."""

import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import Any

import numpy as np

from coverset.runs.trust import sign_record
from coverset.studio.boards import board
from coverset.studio.catalogue import Run
from coverset.studio.files import NotFound
from coverset.studio.match import Match, Step
from coverset.studio.messages import Move, NewTrial, OutOfOrder
from coverset.studio.players import Player, Players, World
from coverset.studio.recordings import FORMAT, RecordingStore

MOST_TRIALS = 128
IDLE_SECONDS = 3600.0


class Trial:
    """One trial. Every finished episode is recorded at once."""

    def __init__(self, id: str, asked: NewTrial, world: World, player: Player, store: RecordingStore) -> None:
        self.id = id
        self.asked = asked
        self.world = world
        self.environment = world.environment
        self.player = player
        self.seat = 1 - player.seat
        self.store = store
        self.recording = store.new_name()
        self.used = time.monotonic()
        self.steps = 0
        self.episodes: list[dict[str, Any]] = []
        self._lock = Lock()
        self._compile()
        self.match = self._new_match()
        self._forget_steps()

    def _new_match(self) -> Match:
        policies = (self.player.policy, None) if self.player.seat == 0 else (None, self.player.policy)
        return Match(self.environment, policies, self.asked.seed)

    def _compile(self) -> None:
        """Play a step that does not count, so that the person's first does not wait for the compiler."""
        self._new_match().step({self.seat: 0})

    def _forget_steps(self) -> None:
        self._actions: list[list[int]] = []
        self._rewards: list[float] = []

    @property
    def over(self) -> bool:
        """Whether all episodes have been played."""
        return len(self.episodes) >= self.asked.episodes

    def status(self) -> dict[str, Any]:
        """Everything that a page needs to go on with the trial."""
        with self._lock:
            return {
                "trial": self.id,
                "board": board(self.environment),
                "seat": self.seat,
                "run": self.asked.run,
                "partner": {"reference": self.player.reference, "name": self.player.name},
                "planned": self.asked.episodes,
                "frame": self.match.frame(),
                **self._standing(),
            }

    def _standing(self) -> dict[str, Any]:
        scores = [{name: episode[name] for name in ("return", "oracle", "ended")} for episode in self.episodes]
        return {
            "step": self.steps,
            "episode": len(self.episodes),
            "scores": scores,
            "over": self.over,
            "recording": self.recording if self.episodes else None,
        }

    def move(self, move: Move) -> dict[str, Any]:
        """Play the person's action: the frame it led to, and where the next episode starts if this one ended."""
        with self._lock:
            self.used = time.monotonic()
            if self.over:
                raise OutOfOrder("This trial is over.")
            if move.step != self.steps:
                raise OutOfOrder(f"The move of step {self.steps} is due, not that of step {move.step}.")
            if move.action >= self.environment.num_actions[self.seat]:
                raise ValueError(f"action must be below {self.environment.num_actions[self.seat]}, got {move.action}.")
            step = self.match.step({self.seat: move.action})
            self.steps += 1
            self._actions.append(list(step.actions))
            self._rewards.append(step.reward)
            frame, start = self.match.frame(step), None
            if step.ended:
                self._end_episode(step)
                if not self.over:
                    self.match.start_episode()
                    start = self.match.frame()
            return {"frame": frame, "start": start, **self._standing()}

    def _end_episode(self, step: Step) -> None:
        self.episodes.append(
            {
                "actions": self._actions,
                "rewards": self._rewards,
                "return": sum(self._rewards),
                "oracle": self._oracle(step),
                "ended": step.ended,
            }
        )
        self._forget_steps()
        self.store.save(self.recording, self._record())

    def _oracle(self, step: Step) -> float | None:
        """The best expected return: with a heuristic, of somebody who knows it; else of a partner who knows the person.

        The second is the best payoff with the convention that the person followed, or with any if it was none.
        """
        if self.player.oracle is not None:
            return self.player.oracle
        payoffs = np.asarray(self.environment.convention_payoffs, float)
        if payoffs.size == 0:
            return None
        by_person = payoffs.T if self.seat == 1 else payoffs
        followed = step.conventions[self.seat]
        return float(by_person[followed].max() if followed < len(by_person) else payoffs.max())

    def _record(self) -> dict[str, Any]:
        return sign_record(
            {
                "format": FORMAT,
                "env": self.world.name,
                "env_parameters": self.world.parameters,
                "env_version": self.environment.version,
                "seed": self.asked.seed,
                "seat": self.seat,
                "partner": {"run": self.asked.run, "reference": self.player.reference, "name": self.player.name},
                "planned_episodes": self.asked.episodes,
                "episodes": self.episodes,
            }
        )


class Trials:
    """The trials going on; those left alone for longest are forgotten first."""

    def __init__(self, players: Players, store: RecordingStore) -> None:
        self.players = players
        self.store = store
        self._trials: OrderedDict[str, Trial] = OrderedDict()
        self._lock = Lock()

    def start(self, run: Run, asked: NewTrial) -> dict[str, Any]:
        """Sit down with a partner; compiles what will be needed."""
        self.store.check_room()
        world, player = self.players.find(run, asked.partner)
        trial = Trial(secrets.token_hex(12), asked, world, player, self.store)
        with self._lock:
            self._trials[trial.id] = trial
            self._forget()
        return trial.status()

    def find(self, id: str) -> Trial:
        """A trial that is going on."""
        with self._lock:
            self._forget()
            trial = self._trials.get(id)
            if trial is None:
                raise NotFound("There is no such trial, or it was left alone for too long: start a new one.")
            self._trials.move_to_end(id)
            return trial

    def _forget(self) -> None:
        idle = time.monotonic() - IDLE_SECONDS
        for id in [id for id, trial in self._trials.items() if trial.used < idle]:
            del self._trials[id]
        while len(self._trials) > MOST_TRIALS:
            self._trials.popitem(last=False)
