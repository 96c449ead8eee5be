"""The pieces of proximal policy optimisation. Arrays in, arrays out."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def sample_actions(
    logits: Float[Array, "*b a"], uniforms: Float[Array, "*b"], legal: Bool[Array, "*b a"] | None = None
) -> Int[Array, "*b"]:
    """Draw from softmax(logits) by inverting its distribution function: one uniform number of [0, 1) per draw.

    `legal` is the mask that the logits have gone through. Rounding may leave the distribution function below a draw at
    its end: then the last legal action is meant.
    """
    thresholds = jnp.cumsum(jax.nn.softmax(logits), axis=-1)
    actions = jnp.sum(thresholds <= uniforms[..., None], axis=-1, dtype=jnp.int32)
    last = logits.shape[-1] - 1
    if legal is None:
        return jnp.minimum(actions, last)
    return jnp.minimum(actions, last - jnp.argmax(legal[..., ::-1], axis=-1).astype(jnp.int32))


def log_probabilities(logits: Float[Array, "*b a"], actions: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """log softmax(logits) at `actions`, as a masked sum: its gradient needs no scatter."""
    chosen = jax.nn.one_hot(actions, logits.shape[-1], dtype=logits.dtype)
    return jnp.sum(jax.nn.log_softmax(logits) * chosen, axis=-1)


def entropy(logits: Float[Array, "*b a"]) -> Float[Array, "*b"]:
    """Entropy of softmax(logits) in nats."""
    log_p = jax.nn.log_softmax(logits)
    return -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)


def clipped_surrogate(
    log_p: Float[Array, "*b"], old_log_p: Float[Array, "*b"], advantage: Float[Array, "*b"], *, clip: float
) -> Float[Array, "*b"]:
    """min(ratio A, clip(ratio, 1 - clip, 1 + clip) A) (Schulman et al. 2017), to be maximised."""
    ratio = jnp.exp(log_p - old_log_p)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)
