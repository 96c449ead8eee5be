"""Hanabi from JaxMARL: its own rules and numbers, no illegal move, and nothing told that a player may not know."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxmarl.environments.hanabi import Hanabi as JaxMarlHanabi

from coverset.adapters.hanabi import Hanabi, action_names, mini_hanabi
from coverset.adapters.promotion import implicit_promotion
from coverset.envs.base import autoreset
from coverset.envs.conformance import check_environment
from coverset.envs.registry import make, parameters_to_record
from coverset.envs.seats import action_mask, has_common_reward

MINI = mini_hanabi()
GAMES, STEPS = 512, 200


def draw_legal(key, environment, state):
    return jax.random.categorical(key, jnp.where(action_mask(environment, state), 0.0, -jnp.inf)).astype(jnp.int32)


def is_legal(environment: Hanabi, inner, seat: int, action):
    """The rules of Hanabi, written down without JaxMARL's masks."""
    hand, colors = environment.cards_in_hand, environment.num_colors
    seats, turn = environment.num_agents, jnp.argmax(inner.cur_player_idx)
    holds = inner.player_hands[seat].any(axis=(1, 2))
    tokens = inner.info_tokens.sum()
    hint = action - 2 * hand
    by_color = hint < (seats - 1) * colors
    rank_hint = hint - (seats - 1) * colors
    other = (seat + 1 + jnp.where(by_color, hint // colors, rank_hint // environment.num_ranks)) % seats
    named = jnp.where(
        by_color,
        inner.player_hands[other].any(axis=(0, 2))[hint % colors],
        inner.player_hands[other].any(axis=(0, 1))[rank_hint % environment.num_ranks],
    )
    acts = jnp.where(
        action < hand,
        holds[action % hand] & (tokens < environment.max_info_tokens),
        jnp.where(action < 2 * hand, holds[action % hand], named & (tokens > 0)),
    )
    waits = action == environment.num_actions[seat] - 1
    return jnp.where(turn == seat, acts & ~waits, waits)


def count_cards(inner):
    """Cards of each kind, wherever they lie."""
    return inner.deck.sum(0) + inner.player_hands.sum((0, 1)) + inner.discard_pile.sum(0) + inner.fireworks


def play_randomly(environment: Hanabi, games: int, steps: int):
    """Legality of all moves, cards, and the returns of episodes where they end."""

    def step(carry, key):
        state, earned = carry
        act_key, step_key, reset_key = jax.random.split(key, 3)
        actions = draw_legal(act_key, environment, state)
        legal = jnp.stack(
            [is_legal(environment, state.inner, seat, actions[seat]) for seat in range(environment.num_agents)]
        )
        outcome = environment.step(step_key, state, actions)
        earned = earned + outcome.reward
        seen = (
            legal,
            count_cards(outcome.state.inner),
            earned,
            outcome.state.inner.score,
            outcome.terminated,
            outcome.truncated,
        )
        ended = outcome.terminated | outcome.truncated
        return (autoreset(outcome, environment.reset(reset_key)), jnp.where(ended, 0.0, earned)), seen

    def play(key):
        return jax.lax.scan(step, (environment.reset(key), jnp.float32(0)), jax.random.split(key, steps))[1]

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), games)))


def test_a_hundred_thousand_random_steps_hold_no_illegal_move_and_score_within_bounds() -> None:
    assert GAMES * STEPS > 100_000
    legal, cards, earned, score, terminated, truncated = play_randomly(MINI, GAMES, STEPS)
    assert legal.all()
    assert not truncated.any(), "games end by the rules"
    np.testing.assert_array_equal(cards, np.broadcast_to(np.array([3.0, 2.0, 1.0]), cards.shape))
    scores = earned[terminated]
    assert len(scores) > 4000
    np.testing.assert_array_equal(scores, score[terminated])
    assert 0 <= scores.min() < scores.max() <= MINI.max_score == 9


def test_illegal_moves_are_found() -> None:
    """The check above can fail: in the first turn nothing can be discarded, and only seat 0 may act."""
    inner = MINI.reset(jax.random.key(0)).inner
    assert not is_legal(MINI, inner, 0, jnp.int32(0))
    assert not is_legal(MINI, inner, 1, jnp.int32(3))
    assert is_legal(MINI, inner, 0, jnp.int32(3))


@pytest.mark.parametrize("environment", [MINI, mini_hanabi(3), Hanabi()], ids=["mini", "three", "full"])
def test_it_keeps_the_contract(environment: Hanabi) -> None:
    check_environment(environment, quick=True)
    assert has_common_reward(environment)
    assert len(action_names(environment)) == environment.num_actions[0]


@pytest.mark.parametrize(
    "environment", [MINI, mini_hanabi(3), Hanabi(shuffle_player_order=True)], ids=["mini", "three", "full"]
)
def test_states_rewards_and_masks_are_those_of_jaxmarl(environment: Hanabi) -> None:
    """Side by side with JaxMARL's own `step`, until it starts the next game by itself."""
    games, steps = 64, 40
    theirs = JaxMarlHanabi(
        num_agents=environment.num_agents,
        num_colors=environment.num_colors,
        num_ranks=environment.num_ranks,
        hand_size=environment.cards_in_hand,
        max_info_tokens=environment.max_info_tokens,
        max_life_tokens=environment.max_life_tokens,
        num_cards_of_rank=np.array(environment.copies),
        shuffle_player_order=environment.shuffle_player_order,
    )

    def by_agent(values):
        return jnp.stack([jnp.asarray(values[agent], jnp.float32) for agent in theirs.agents])

    def step(carry, key):
        ours, inner, over = carry
        actions = draw_legal(key, environment, ours)
        outcome = environment.step(jax.random.split(key)[0], ours, actions)
        seen, inner, rewards, dones, _ = theirs.step(key, inner, dict(zip(theirs.agents, actions, strict=True)))
        ended = over | dones["__all__"]
        pairs = {
            "observations": (environment.observe(outcome.state), by_agent(seen), ended),
            "masks": (
                environment.legal_actions(outcome.state),
                by_agent(theirs.get_legal_moves(inner)) > 0,
                ended,
            ),
            "rewards": (
                jnp.broadcast_to(outcome.reward, environment.num_seats),
                by_agent(rewards),
                over,
            ),
            "ends": (outcome.terminated, dones["__all__"], over),
        }
        return (outcome.state, inner, ended), pairs

    def play(key):
        _, inner = theirs.reset(key)
        carry = (environment.reset(key), inner, jnp.bool_(False))
        return jax.lax.scan(step, carry, jax.random.split(key, steps))[1]

    with implicit_promotion():
        played = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(1), games))
    for name, (ours, other, after) in played.items():
        shared = ~np.asarray(after)
        assert shared.sum() > 200, name
        np.testing.assert_array_equal(np.asarray(ours)[shared], np.asarray(other)[shared], err_msg=name)
    assert (np.asarray(played["rewards"][0]) != 0).any()


def after_random_moves(environment: Hanabi, moves: int):
    state = environment.reset(jax.random.key(4))
    for key in jax.random.split(jax.random.key(5), moves):
        state = environment.step(key, state, draw_legal(key, environment, state)).state
    return jax.tree.map(np.asarray, state)


def with_hand_reversed(state, seat: int):
    hands = state.inner.player_hands.copy()
    hands[seat] = hands[seat][::-1]
    assert (hands != state.inner.player_hands).any()
    return state._replace(inner=state.inner.replace(player_hands=hands))


def test_the_text_for_a_player_does_not_depend_on_its_own_cards() -> None:
    state = after_random_moves(MINI, 5)
    for seat in range(2):
        changed = with_hand_reversed(state, seat)
        assert MINI.render(changed, seat) == MINI.render(state, seat)
        assert MINI.render(changed, 1 - seat) != MINI.render(state, 1 - seat)
        assert MINI.render(changed) != MINI.render(state)


def test_the_text_holds_what_hints_have_told() -> None:
    state = MINI.reset(jax.random.key(0))
    first = int(jnp.argmax(state.inner.player_hands[1][0].any(axis=0)))
    hint = action_names(MINI).index(f"hint {first + 1}")
    told = MINI.step(jax.random.key(0), state, jnp.array([hint, 12])).state
    mine = MINI.render(told, 1).splitlines()[-1]
    assert mine.startswith(f"> seat 1 (you): ?? [?{first + 1} RYG{first + 1}]")
    assert "hints left: 3" in MINI.render(told, 1)
    assert "(you)" not in MINI.render(told)


def test_in_a_shuffled_order_a_seat_is_shown_its_own_hand() -> None:
    environment = Hanabi(shuffle_player_order=True)
    states = [jax.tree.map(np.asarray, environment.reset(jax.random.key(seed))) for seed in range(6)]
    swapped = next(state for state in states if state.inner.seat_order[0] == 1)
    assert environment.seats_alike
    assert environment.render(swapped).splitlines()[-1].startswith("> seat 1:"), "it sits in the first place"
    hidden = with_hand_reversed(swapped, 0)
    assert environment.render(hidden, 1) == environment.render(swapped, 1)
    assert environment.render(hidden, 0) != environment.render(swapped, 0)


def test_a_record_of_its_parameters_makes_it_again() -> None:
    given = {"num_colors": 3, "num_ranks": 3, "hand_size": 3, "max_info_tokens": 4}
    assert make("coverset.adapters.hanabi:Hanabi", **given) == MINI
    recorded = parameters_to_record("coverset.adapters.hanabi:mini_hanabi", MINI, {})
    assert make("coverset.adapters.hanabi:mini_hanabi", **recorded) == MINI


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_agents": 6}, "num_agents must lie between 2 and 5, got 6."),
        ({"num_colors": 7}, "num_colors must lie between 1 and 6, got 7."),
        ({"hand_size": 0}, "hand_size must be at least 1, got 0."),
        ({"hand_size": 25}, "hand_size must leave a card in the deck of 50, got 25, which deals 50."),
        ({"num_cards_of_rank": (1, 1)}, "num_cards_of_rank must hold .* each of the 5 ranks, got .1, 1.."),
    ],
)
def test_what_is_no_game_is_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        Hanabi(**changes)


def test_the_full_game_is_that_of_the_rules() -> None:
    full = Hanabi()
    assert (full.cards_in_hand, full.copies, full.max_score, full.num_actions) == (5, (3, 2, 2, 2, 1), 25, (21, 21))
    assert Hanabi(num_agents=4).cards_in_hand == 4
