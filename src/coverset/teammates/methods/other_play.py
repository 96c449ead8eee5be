"""Other-Play (Hu et al. 2020): self-play in which the partner's labels are exchanged by a symmetry of the game.

    max_pi E_phi J(pi, phi(pi))        phi uniform over the symmetries of the game

A convention that breaks a symmetry arbitrarily earns nothing with a partner who broke it in another way, so that the
best policies choose what every symmetry leaves as it is. Games list their symmetries (`Environment.symmetries`), and
in training the teammates of every pair see and act through one that is drawn for every episode (`envs.relabelled`).
Policies are saved and measured in the game as it is.

Differs from the source: a joint policy is a pair of policies, one for each seat, unless pairs share one
(`share_pair_parameters`); K of them are trained side by side, from different starts.
"""

from dataclasses import dataclass

from coverset.envs.base import Environment
from coverset.envs.relabelled import Relabelled
from coverset.teammates.method import World
from coverset.teammates.self_play import SelfPlay


@dataclass(frozen=True)
class OtherPlay(SelfPlay):
    """Self-play with teammates who see the game through a random symmetry."""

    def check(self, world: World) -> None:
        super().check(world)
        if len(world.environment.symmetries) < 2:
            name = type(world.environment).__name__
            raise ValueError(f"other-play needs a game that lists its symmetries, got {name}, which lists none.")

    def training_environment(self, environment: Environment) -> Environment:
        return Relabelled(environment)
