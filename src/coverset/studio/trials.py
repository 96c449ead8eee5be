"""Trials of a person with one partner: several episodes, across which the partner keeps its memory."""

import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import Any

import numpy as np

from coverset.envs.seats import PASS_ACTION, has_common_reward
from coverset.runs.trust import sign_record
from coverset.studio.boards import describe_board
from coverset.studio.catalogue import Run
from coverset.studio.files import NotFound
from coverset.studio.match import Match, Step
from coverset.studio.messages import Move, NewTrial, OutOfOrder
from coverset.studio.partners import NamedEnvironment, Partner, PartnerLoader
from coverset.studio.recordings import FORMAT, RecordingStore
from coverset.studio.seating import plan_seats

MOST_TRIALS = 128
IDLE_SECONDS = 3600.0
MOST_FORCED = 200
"""Steps in which the person has no choice that one request plays."""
SCORE = ("return", "returns", "oracle", "ended")
"""Fields of an episode that are shown as its score."""


class Trial:
    """One trial. Every finished episode is recorded immediately.

    Steps in which the person has no choice, as in a game of turns while others play, are played without asking.
    """

    def __init__(
        self,
        id: str,
        asked: NewTrial,
        named: NamedEnvironment,
        partner: Partner,
        store: RecordingStore,
        *,
        team: Partner | None = None,
    ) -> None:
        """Compile the simulation and start the first episode.

        Args:
          id: of the trial.
          asked: the person's wishes.
          named: the game.
          partner: whom the person plays with.
          store: where recordings go.
          team: who plays the seats that person and partner leave free; None if there are none.
        """
        self.id = id
        self.asked = asked
        self.named = named
        self.environment = named.environment
        self.partner = partner
        self.team = team
        self.plan = plan_seats(self.environment, partner, team, asked.seat)
        self.seat = self.plan.person
        self.store = store
        self.recording = store.new_name()
        self.last_used = time.monotonic()
        self.steps = 0
        self.episodes: list[dict[str, Any]] = []
        self.beliefs: list[list[float] | None] = []
        self._lock = Lock()
        self._compile()
        self.match = self._new_match()
        self._reset_episode()
        self._beginning = [self.match.frame(seat=self.seat), *self._follow_up()]

    def _new_match(self) -> Match:
        return Match(self.environment, self.plan.policies, self.asked.seed, ego=self.plan.ego)

    def _compile(self) -> None:
        """Play a step that is discarded, so that the person's first move does not wait for compilation."""
        match = self._new_match()
        legal = match.legal_actions(self.seat)
        match.step({self.seat: legal.index(True) if legal and any(legal) else PASS_ACTION})
        if self.partner.told:
            match.belief(self.partner.seat)

    def _reset_episode(self) -> None:
        self._actions: list[list[int]] = []
        self._rewards: list[tuple[float, ...]] = []

    @property
    def over(self) -> bool:
        """Whether all episodes have been played."""
        return len(self.episodes) >= self.asked.episodes

    def beginning(self) -> dict[str, Any]:
        """Describe the trial with all frames until the person's first choice."""
        return self._describe(self._beginning, scores=[])

    def status(self) -> dict[str, Any]:
        """Describe everything that a page needs to continue the trial."""
        with self._lock:
            return self._describe([self.match.frame(seat=self.seat)], self._scores())

    def _describe(self, frames: list[dict[str, Any]], scores: list[dict[str, Any]]) -> dict[str, Any]:
        """Describe the trial; `scores` are those of the episodes before the first of the frames."""
        return {
            "trial": self.id,
            "board": describe_board(self.environment),
            "seat": self.seat,
            "run": self.asked.run,
            "partner": _describe_partner(self.partner) | {"seat": self.partner.seat if self.partner.is_ego else None},
            "team": None if self.team is None else _describe_partner(self.team),
            "planned": self.asked.episodes,
            "frames": frames,
            "scores": scores,
            **self._progress(),
        }

    def _progress(self) -> dict[str, Any]:
        return {
            "step": self.steps,
            "episode": len(self.episodes),
            "over": self.over,
            "recording": self.recording if self.episodes else None,
            **({"beliefs": self._tell_beliefs()} if self.over else {}),
        }

    def _tell_beliefs(self) -> dict[str, Any] | None:
        """What the partner believed in each episode of a trial that is over; None if it keeps no belief."""
        if self.partner.told is None or None in self.beliefs:
            return None
        return {"kind": self.partner.told, "episodes": self.beliefs}

    def _scores(self) -> list[dict[str, Any]]:
        return [{name: episode[name] for name in SCORE} for episode in self.episodes]

    def move(self, move: Move) -> dict[str, Any]:
        """Play the person's action; return the frames from its result on to the person's next choice."""
        with self._lock:
            self.last_used = time.monotonic()
            if self.over:
                raise OutOfOrder("This trial is over.")
            if move.step != self.steps:
                raise OutOfOrder(f"Expected the move of step {self.steps}, got that of step {move.step}.")
            self._check_action(move.action)
            return {"frames": [self._play(move.action), *self._follow_up()], **self._progress()}

    def _check_action(self, action: int) -> None:
        count, legal = self.environment.num_actions[self.seat], self.match.legal_actions(self.seat)
        if action >= count:
            raise ValueError(f"action must be below {count}, got {action}.")
        if legal is None or legal[action] or (action == PASS_ACTION and not any(legal)):
            return
        allowed = [str(number) for number in range(count) if legal[number]] or [f"{PASS_ACTION}, which passes"]
        raise ValueError(f"action must be legal in this state: {', '.join(allowed)}, got {action}.")

    def _play(self, action: int) -> dict[str, Any]:
        """Play one step; return its frame, which has the score if the episode has ended."""
        step = self.match.step({self.seat: action})
        self.steps += 1
        self._actions.append(list(step.actions))
        self._rewards.append(step.rewards)
        frame = self.match.frame(step, seat=self.seat)
        if step.ended:
            self._end_episode(step)
            frame |= {"score": self._scores()[-1]}
        return frame

    def _follow_up(self) -> list[dict[str, Any]]:
        """Start the next episode if one has ended, and play while the person has no choice; return all frames."""
        frames: list[dict[str, Any]] = []
        while not self.over and (self.match.ended or len(frames) < MOST_FORCED):
            if self.match.ended:
                self.match.start_episode()
                frames.append(self.match.frame(seat=self.seat))
            elif (forced := self.match.forced_action(self.seat)) is not None:
                frames.append(self._play(forced))
            else:
                break
        return frames

    def _end_episode(self, step: Step) -> None:
        returns = [sum(rewards) for rewards in zip(*self._rewards, strict=True)]
        self.episodes.append(
            {
                "actions": self._actions,
                "rewards": [rewards[self.seat] for rewards in self._rewards],
                "return": returns[self.seat],
                "returns": returns,
                "oracle": self._oracle(step),
                "ended": step.ended,
            }
        )
        if self.partner.told:
            self.beliefs.append(self.match.belief(self.partner.seat))
        self._reset_episode()
        self.store.save(self.recording, self._record())

    def _oracle(self, step: Step) -> float | None:
        """Best expected return: with a heuristic, of a partner who knows it; else of a partner who knows the person.

        The latter is the best payoff with the convention that the person followed, or with any if there was none. It is
        unknown where the table of conventions does not say what the person earns: if rewards differ and the table is
        the other player's, or if the person is one of several teammates.
        """
        if self.partner.oracle is not None:
            return self.partner.oracle
        payoffs = np.asarray(self.environment.convention_payoffs, float)
        is_ego = self.seat == self.plan.ego
        told = is_ego or (self.environment.num_seats == 2 and has_common_reward(self.environment))
        if payoffs.size == 0 or not told:
            return None
        by_person = payoffs if is_ego else payoffs.T
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
                "partner": {"run": self.asked.run, **_describe_partner(self.partner)},
                **({} if self.team is None else {"team": _describe_partner(self.team)}),
                "planned_episodes": self.asked.episodes,
                "episodes": self.episodes,
            }
        )


def _describe_partner(partner: Partner) -> dict[str, Any]:
    return {"reference": partner.reference, "name": partner.name}


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
        team = self.partners.find_team(run, partner, asked.team)
        trial = Trial(secrets.token_hex(12), asked, named, partner, self.store, team=team)
        with self._lock:
            self._trials[trial.id] = trial
            self._drop_stale()
        return trial.beginning()

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
