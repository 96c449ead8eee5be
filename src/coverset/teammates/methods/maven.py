"""MAVEN (Mahajan et al. 2019) with K values of its latent variable: pairs that a discriminator can tell apart.

    sum_z R_zz + lambda I_q        I_q = log K + (1/K) sum_z E log q(z | o_t, pi_z(. | o_t)) <= I(z; o_t, pi_z(. | o_t))

In MAVEN all agents see one z, drawn for every episode, and a variational bound of the mutual information between z and
the trajectory keeps its values apart. Here each of the K values is a pair with networks of its own. The bound enters
in two ways: its gradient in pi_z at the observations of the rollout is part of the loss, and every step earns
lambda (log K + log q), so that pairs also go where they are told apart. The discriminator q, one network for each side,
ascends log q itself, whatever lambda is.

Differs from the source: the discriminator reads one step instead of a trajectory, and values of z share no parameters;
MAVEN learns values with a mixing network, and a policy over z, where we have PPO and z is uniform.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from coverset.checks import check_at_least, check_finite
from coverset.envs.seats import seating, sides
from coverset.policies.network import Network
from coverset.policies.networks.dense import MLP
from coverset.policy import mask_logits
from coverset.teammates.method import Rollout, World
from coverset.teammates.self_play import SelfPlay, check_memoryless
from coverset.types import PairMatrix, PRNGKey, Scalar


def recognition(
    discriminator: MLP, observations: Float[Array, "K *b d"], probabilities: Float[Array, "K *b a"]
) -> Float[Array, "K *b"]:
    """log q(z | o, pi) where row z holds what pair z saw and would do."""
    log_q = jax.nn.log_softmax(discriminator(jnp.concatenate([observations, probabilities], axis=-1)))
    return jnp.einsum("k...k->k...", log_q)


@dataclass(frozen=True)
class MAVEN(SelfPlay):
    """Self-play with a bound of the mutual information between a pair's number and what it sees and does."""

    information_weight: float = 0.1
    """Weight of the mutual information, in units of reward for each nat and step: lambda."""
    discriminator_size: int = 64
    """Width of the discriminator's hidden layer."""

    def __post_init__(self) -> None:
        check_at_least("information_weight", self.information_weight, 0)
        check_finite("information_weight", self.information_weight)
        check_at_least("discriminator_size", self.discriminator_size, 1)

    def check(self, world: World) -> None:
        super().check(world)
        check_memoryless(world, "maven")

    def init_parameters(self, key: PRNGKey, world: World) -> tuple[MLP, ...]:
        keys = jax.random.split(key, 2)
        sizes = [(side.observation_size + side.num_actions, world.columns) for side in sides(world.environment)]
        return tuple(
            MLP.create(side_key, (inputs, self.discriminator_size, outputs), head_scale=0.01)
            for side_key, (inputs, outputs) in zip(keys, sizes, strict=True)
        )

    def bonus(self, parameters: tuple[MLP, ...], state: PairMatrix, rollout: Rollout) -> Float[Array, "T R B"]:
        del state
        seats, steps, networks = seating(rollout.world.environment), rollout.steps, rollout.networks
        observations, masks = seats.observations(steps.observations), seats.mask(steps.legal)

        def of_side(side: int, members: Network) -> Float[Array, "T R B"]:
            seen = jnp.swapaxes(observations[side], 0, 1)
            legal = jax.tree.map(lambda mask: jnp.swapaxes(mask, 0, 1), masks[side])
            logits, _ = jax.vmap(type(members).step)(members, seen, ())
            known = recognition(parameters[side], seen, jax.nn.softmax(mask_logits(logits, legal)))
            known = known.mean(axis=-1) if known.ndim > steps.reward.ndim else known
            return jnp.swapaxes(known, 0, 1)

        known = 0.5 * (of_side(0, networks.best_responses) + of_side(1, networks.teammates))
        return self.information_weight * (known + jnp.log(jnp.float32(rollout.world.columns)))

    def loss(self, parameters: tuple[MLP, ...], state: PairMatrix, batch, logits) -> tuple[Scalar, dict[str, Scalar]]:
        """-sum_z lambda E log q for the policies, -E log q for the discriminators."""
        del state
        of_policies, of_discriminators = jnp.float32(0.0), jnp.float32(0.0)
        for discriminator, data, outputs in zip(parameters, batch[:2], logits, strict=True):
            fixed, chances = jax.lax.stop_gradient(discriminator), jax.nn.softmax(outputs)
            own = tuple(range(1, data.share.ndim))
            of_policies += jnp.sum(jnp.mean(data.share * recognition(fixed, data.observations, chances), axis=own))
            seen = recognition(discriminator, data.observations, jax.lax.stop_gradient(chances))
            of_discriminators += 0.5 * jnp.mean(data.share * seen)
        size = jnp.float32(logits[0].shape[0])
        logged = {"discriminator_loss": -of_discriminators, "mutual_information": jnp.log(size) + of_discriminators}
        return -self.information_weight * of_policies - of_discriminators, logged
