"""Teams of partners in training and evaluation: who plays where, whole and mixed, and the agent in every seat."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coverset.adhoc.learners.rl2 import RL2
from coverset.adhoc.pool import PartnerPool
from coverset.adhoc.teams import make_teams
from coverset.adhoc.trainer import AgentTrainer
from coverset.envs.matrix import MatrixGame
from coverset.envs.matrix.heuristics import MixedAction
from coverset.evaluation.robustness import evaluate_agent
from coverset.policies.stacked import stack
from coverset.policy import Policy
from coverset.settings import TrainSettings
from relay import Relay, legal_table

ACTIONS = 3
WEIGHTS = np.array([100.0, 10.0, 1.0])


def digits(players: int = 3) -> MatrixGame:
    """The common payoff tells everybody's action: its digits, seat after seat."""
    table = np.tensordot(WEIGHTS[:players], np.indices((ACTIONS,) * players), 1)
    nested = lambda x: tuple(map(nested, x)) if x.ndim > 1 else tuple(x.tolist())  # noqa: E731
    return MatrixGame(payoffs=nested(table))


def by_own_action() -> MatrixGame:
    """Everybody earns 10 times its own action plus the sum of the others'; all seats are alike."""
    actions = np.indices((ACTIONS,) * 3).astype(float)
    tables = [10 * own + actions.sum(axis=0) - own for own in actions]
    nested = lambda x: tuple(map(nested, x)) if x.ndim > 1 else tuple(x.tolist())  # noqa: E731
    return MatrixGame(payoffs=nested(np.stack(tables)), by_player=True)


def always(action: int) -> MixedAction:
    return MixedAction(jnp.eye(ACTIONS, dtype=jnp.float32)[action])


SETTINGS = TrainSettings(
    total_steps=1, hidden_sizes=(4,), memory_size=4, envs_per_partner=8, rollout_length=3, episodes_per_trial=2,
    mixed_teams=0.5,
)  # fmt: skip


class Counter(Policy):
    """Plays how many steps of its trial are over, and which seat it has: whatever it confuses, shows."""

    def initial_memory(self):
        return jnp.int32(0)

    def act(self, key, percept, memory):
        return (memory + percept.seat) % ACTIONS, memory + 1


class FirstLegal(Policy):
    """Plays the first legal action."""

    unused: jax.Array
    """What members of a stack are counted by."""

    def initial_memory(self):
        return ()

    def act(self, key, percept, memory):
        return jnp.argmax(percept.legal).astype(jnp.int32), memory


def test_partners_play_the_seats_that_the_rows_say() -> None:
    """Half of the environments have the row's partner in both seats, the others partners p and p + e + 1."""
    pool, game = PartnerPool((stack([always(action) for action in range(3)]),)), digits()
    trainer = AgentTrainer.create(game, SETTINGS, RL2())
    state = trainer.init(jax.random.key(0), pool)
    steps, _, tally = eqx.filter_jit(trainer.collect)(jax.random.key(1), state, pool)
    for t, p, e in np.ndindex(3, 3, 8):
        second = p if e < 4 else (p + e + 1) % 3
        np.testing.assert_array_equal(steps.partner_actions[t, p, e], [p, second])
        paid = 100 * int(steps.actions[t, p, e]) + 10 * p + second
        assert float(steps.reward[t, p, e]) == paid
    mixed = {(p, (p + e + 1) % 3) for p in range(3) for e in range(4, 8)}
    assert len(mixed) == 9
    assert tally.episodes.sum() == 3 * 3 * 4, "episodes with mixed teams are not reported as a partner's"


def test_memories_of_mixed_teams_follow_the_partner_and_the_seat() -> None:
    teams = make_teams(2, 4, 2, 0.5)
    pool = PartnerPool((stack([always(0), always(1)]),))
    values = jnp.arange(2 * 4 * 2).reshape(2, 4, 2)
    np.testing.assert_array_equal(teams._by_environment(teams._by_partner(values)), values)
    by_partner = np.asarray(teams._by_partner(values)).reshape(2, 4, 2)
    for p, e, s in np.ndindex(2, 4, 2):
        owner = (p + (0 if e < 2 else (e + 1) * s)) % 2
        assert by_partner[owner, e, s] == values[p, e, s]
    assert teams.initial_memories(pool) == ((),)


def test_two_players_or_one_partner_have_no_mixed_teams() -> None:
    assert make_teams(3, 8, 1, 0.5).num_mixed == make_teams(1, 8, 2, 0.5).num_mixed == 0


def test_agents_of_three_play_legally_while_they_learn() -> None:
    """In a game of turns in which an illegal action costs 1000."""
    game, pool = Relay(), PartnerPool((FirstLegal(jnp.zeros(2)),))
    trainer = AgentTrainer.create(game, SETTINGS, RL2())
    state = trainer.init(jax.random.key(0), pool)
    update = eqx.filter_jit(trainer.update)
    for _ in range(3):
        steps, _, _ = eqx.filter_jit(trainer.collect)(state.key, state, pool)
        assert float(steps.reward.min()) >= 1.0
        times = np.asarray(steps.inputs[..., 0]).astype(int)
        assert np.all(legal_table()[times, 0, np.asarray(steps.actions)] | ((times % 3 > 0) & (steps.actions == 0)))
        state, metrics = update(state, pool)
        assert bool(metrics.finite)


def test_mixed_teams_are_named_and_seated_in_order() -> None:
    partners = {f"P{n}": always(n) for n in range(3)}
    record = evaluate_agent(jax.random.key(0), digits(), always(2), partners=partners, trials=2, episodes=2)
    mixed = {name: record.mean_return(name) for name in record.mixed_returns}
    assert mixed == {"P0 + P1": 201.0, "P1 + P2": 212.0, "P2 + P0": 220.0}
    assert [record.mean_return(name) for name in partners] == [200.0, 211.0, 222.0]


def test_members_of_a_mixed_team_keep_their_own_memory() -> None:
    partners = {"counter": Counter(), "one": always(1)}
    record = evaluate_agent(jax.random.key(0), digits(), always(0), partners=partners, trials=1, episodes=4)
    played = record.mixed_returns["counter + one"][0]
    np.testing.assert_array_equal(played, [10 * ((1 + t) % 3) + 1 for t in range(4)])


@pytest.mark.parametrize("seat", [0, 1, 2])
def test_an_agent_may_take_every_seat_and_its_own_return_counts(seat: int) -> None:
    def play(action: int) -> float:
        partners, game = {"one": always(1), "two": always(2)}, by_own_action()
        record = evaluate_agent(
            jax.random.key(0), game, always(action), seat=seat, partners=partners, trials=1, episodes=1
        )
        return record.mean_return("one + two")

    assert (play(0), play(2)) == (3.0, 23.0)


def test_seats_rotate_over_trials_where_they_are_alike() -> None:
    """An agent that plays in trial t from seat t: in a game that tells who sits where, each trial tells its seat."""
    partners = {"whole": always(1)}

    def play(game: MatrixGame, **options):
        return evaluate_agent(jax.random.key(0), game, always(2), partners=partners, trials=7, episodes=1, **options)

    alike = play(by_own_action(), rotate_seats=True)
    np.testing.assert_array_equal(alike.returns["whole"], np.full((7, 1), 22.0))

    class Told(MatrixGame):
        seats_alike = True  # pyright: ignore[reportAssignmentType]

    told = Told(payoffs=digits().payoffs)
    paid = [float(WEIGHTS @ np.roll([2, 1, 1], seat)) for seat in range(3)]
    rotated = play(told, rotate_seats=True).returns["whole"][:, 0]
    np.testing.assert_array_equal(rotated, [*itertools.islice(itertools.cycle(paid), 7)])
    np.testing.assert_array_equal(play(told).returns["whole"][:, 0], np.full(7, paid[0]))
    with pytest.raises(ValueError, match="rotate_seats must be false in a game whose seats are not alike"):
        play(digits(), rotate_seats=True)
