"""Whether settings, game, networks and grid fit together: what no setting can check on its own."""

from coverset.envs.base import Environment
from coverset.policies.network import check_observation_shape, network_class
from coverset.settings import GenerateSettings
from coverset.teammates.networks import actor_spec, critic_input_shape
from coverset.teammates.pair_grid import PairGrid


def check_fit(environment: Environment, settings: GenerateSettings, grid: PairGrid) -> None:
    """Raise ValueError unless the settings fit the game, the networks and the method's grid."""
    s, is_square = settings, grid.rows == grid.columns
    for side in (0, 1):
        check_observation_shape(s.network, actor_spec(environment, s, side).input_shape)
    check_observation_shape(s.critic_network, critic_input_shape(environment))
    if s.share_pair_parameters and len(set(environment.num_actions)) > 1:
        raise ValueError(
            "share_pair_parameters must be false where the seats have different actions, "
            f"got true for {' and '.join(map(str, environment.num_actions))} actions."
        )
    if s.share_pair_parameters and len(set(environment.observation_shapes)) > 1:
        raise ValueError("share_pair_parameters must be false where the seats have observations of different shapes.")
    for name in ("restart_patience", "stop_patience", "share_pair_parameters"):
        if getattr(s, name) and not is_square:
            raise ValueError(
                f"{name} must be 0 where best responses and teammates differ in number, got {getattr(s, name)}."
            )
    recurrent = any(network_class(kind).recurrent for kind in (s.network, s.critic_network))
    if recurrent and s.minibatches > 1 and not is_square:
        raise ValueError("minibatches must be 1 for recurrent networks on a grid that is not square.")
    size, what = (
        (grid.row_size, "environments of one policy") if recurrent else (s.rollout_length, "steps of a rollout")
    )
    if size % s.minibatches:
        raise ValueError(f"minibatches must divide the {size} {what}, got {s.minibatches}.")
