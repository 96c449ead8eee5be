"""The centralised critic V^{i,-j} of Algorithm 1."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int

from coverset.policies.network import Network, NetworkSpec, network_class
from coverset.types import PRNGKey


class PairCritic(eqx.Module):
    """All seats' observations and both identities in, the pair's expected discounted return out.

    A one-hot identity times a weight matrix is a row of that matrix, so identities enter as two embeddings that are
    added to the first dense layer's input.
    """

    network: Network
    best_response_embedding: Float[Array, "*s R h"]
    teammate_embedding: Float[Array, "*s C h"]

    @classmethod
    def create(cls, key: PRNGKey, kind: str, spec: NetworkSpec, rows: int, columns: int) -> "PairCritic":
        """Draw the layers, and unit-scale embeddings that tell pairs apart from the start.

        Args:
          kind: name of the network.
          spec: its sizes; the input is the observations of all seats.
          rows: number of best responses.
          columns: number of teammates.
        """
        network_key, row_key, column_key = jax.random.split(key, 3)
        width = spec.hidden_sizes[0]
        return cls(
            network=network_class(kind).build(network_key, spec),
            best_response_embedding=jax.random.normal(row_key, (rows, width)),
            teammate_embedding=jax.random.normal(column_key, (columns, width)),
        )

    def identity(self, best_response: Int[Array, "*b"], teammate: Int[Array, "*b"]) -> Float[Array, "*b h"]:
        """What a pair's identity adds to the first dense layer."""
        return self.best_response_embedding[best_response] + self.teammate_embedding[teammate]
