"""Trials of a person with one partner: several episodes, across which the partner keeps its memory."""

import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import Any

import numpy as np

from coverset.runs.trust import sign_record
from coverset.studio.boards import describe_board
from coverset.studio.catalogue import Run
from coverset.studio.files import NotFound
from coverset.studio.match import Match, Step
from coverset.studio.messages import Move, NewTrial, OutOfOrder
from coverset.studio.partners import NamedEnvironment, Partner, PartnerLoader
from coverset.studio.recordings import FORMAT, RecordingStore

MOST_TRIALS = 128
IDLE_SECONDS = 3600.0


class Trial:
    """One trial. Every finished episode is recorded immediately."""

    def __init__(
        self, id: str, asked: NewTrial, named: NamedEnvironment, partner: Partner, store: RecordingStore
    ) -> None:
        self.id = id
        self.asked = asked
        self.named = named
        self.environment = named.environment
        self.partner = partner
        self.seat = 1 - partner.seat
        self.store = store
        self.recording = store.new_name()
        self.last_used = time.monotonic()
        self.steps = 0
        self.episodes: list[dict[str, Any]] = []
        self._lock = Lock()
        self._compile()
        self.match = self._new_match()
        self._reset_episode()

    def _new_match(self) -> Match:
        policies = (self.partner.policy, None) if self.partner.seat == 0 else (None, self.partner.policy)
        return Match(self.environment, policies, self.asked.seed)

    def _compile(self) -> None:
        """Play a step that is discarded, so that the person's first move does not wait for compilation."""
        self._new_match().step({self.seat: 0})

    def _reset_episode(self) -> None:
        self._actions: list[list[int]] = []
        self._rewards: list[float] = []

    @property
    def over(self) -> bool:
        """Whether all episodes have been played."""
        return len(self.episodes) >= self.asked.episodes

    def status(self) -> dict[str, Any]:
        """Describe everything that a page needs to continue the trial."""
        with self._lock:
            return {
                "trial": self.id,
                "board": describe_board(self.environment),
                "seat": self.seat,
                "run": self.asked.run,
                "partner": {"reference": self.partner.reference, "name": self.partner.name},
                "planned": self.asked.episodes,
                "frame": self.match.frame(),
                **self._progress(),
            }

    def _progress(self) -> dict[str, Any]:
        scores = [{name: episode[name] for name in ("return", "oracle", "ended")} for episode in self.episodes]
        return {
            "step": self.steps,
            "episode": len(self.episodes),
            "scores": scores,
            "over": self.over,
            "recording": self.recording if self.episodes else None,
        }

    def move(self, move: Move) -> dict[str, Any]:
        """Play the person's action; return its frame, and the next episode's first frame if this one ended."""
        with self._lock:
            self.last_used = time.monotonic()
            if self.over:
                raise OutOfOrder("This trial is over.")
            if move.step != self.steps:
                raise OutOfOrder(f"Expected the move of step {self.steps}, got that of step {move.step}.")
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
            return {"frame": frame, "start": start, **self._progress()}

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
        self._reset_episode()
        self.store.save(self.recording, self._record())

    def _oracle(self, step: Step) -> float | None:
        """Best expected return: with a heuristic, of a partner who knows it; else of a partner who knows the person.

        The latter is the best payoff with the convention that the person followed, or with any if there was none.
        """
        if self.partner.oracle is not None:
            return self.partner.oracle
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
                "env": self.named.name,
                "env_parameters": self.named.parameters,
                "env_version": self.environment.version,
                "seed": self.asked.seed,
                "seat": self.seat,
                "partner": {"run": self.asked.run, "reference": self.partner.reference, "name": self.partner.name},
                "planned_episodes": self.asked.episodes,
                "episodes": self.episodes,
            }
        )


class TrialStore:
    """The current trials; idle ones expire, and the least recently used are dropped first."""

    def __init__(self, partners: PartnerLoader, store: RecordingStore) -> None:
        self.partners = partners
        self.store = store
        self._trials: OrderedDict[str, Trial] = OrderedDict()
        self._lock = Lock()

    def start(self, run: Run, asked: NewTrial) -> dict[str, Any]:
        """Start a trial; compiles its simulation."""
        self.store.check_room()
        named, partner = self.partners.find(run, asked.partner)
        trial = Trial(secrets.token_hex(12), asked, named, partner, self.store)
        with self._lock:
            self._trials[trial.id] = trial
            self._drop_stale()
        return trial.status()

    def find(self, id: str) -> Trial:
        """Find a current trial; raise NotFound if there is none with this id."""
        with self._lock:
            self._drop_stale()
            trial = self._trials.get(id)
            if trial is None:
                raise NotFound("There is no such trial, or it has expired: start a new one.")
            self._trials.move_to_end(id)
            return trial

    def _drop_stale(self) -> None:
        idle = time.monotonic() - IDLE_SECONDS
        for id in [id for id, trial in self._trials.items() if trial.last_used < idle]:
            del self._trials[id]
        while len(self._trials) > MOST_TRIALS:
            self._trials.popitem(last=False)
