"""Matrix games that name no conventions: one that says nothing, and some that describe whole episodes."""

from dataclasses import dataclass

from coverset.envs.base import Environment
from coverset.envs.drawing import Board
from coverset.envs.matrix import MatrixGame
from coverset.types import Trajectory


@dataclass(frozen=True)
class Unnamed(MatrixGame):
    """The matrix game of three rounds, without names."""

    horizon: int = 3
    conventions = ()
    convention_payoffs = ()
    convention = Environment.convention

    def board(self) -> Board | None:
        return None


@dataclass(frozen=True)
class Described(Unnamed):
    """Tells what was played in the whole episode."""

    def describe(self, trajectory: Trajectory, seat: int) -> str:
        assert trajectory.states.time.tolist() == [0, 1, 2, 3], "initial and final state included"
        assert trajectory.observations.shape == (3, 2, 1)
        return f"plays {trajectory.actions[:, seat].tolist()} for {trajectory.rewards[:, seat].sum():g}"


@dataclass(frozen=True)
class Silent(Unnamed):
    """Describes nothing."""

    def describe(self, trajectory: Trajectory, seat: int) -> str:
        del trajectory, seat
        return ""


@dataclass(frozen=True)
class Failing(Unnamed):
    """Fails."""

    def describe(self, trajectory: Trajectory, seat: int) -> str:
        raise KeyError("corner")
