"""What is possible in a trial: solved cases, a slow recursion to compare with, and the order of the bounds."""

import numpy as np
import pytest

from coverset.evaluation.bounds import (
    PlayedEpisodes,
    TrialProblem,
    bound_by_free_information,
    bound_informed,
    count_outcomes,
    number_outcomes,
    play_look_ahead,
    solve_exactly,
)

PAYOFFS = np.array([[10.0, 0.0, 4.0], [0.0, 6.0, 4.0], [4.0, 4.0, 6.0]])
EVEN = np.full(2, 0.5)


def observed(payoffs: np.ndarray, partners: np.ndarray) -> TrialProblem:
    """A matrix game of one round: arms are actions, and the agent sees its reward."""
    rewards = np.unique(payoffs)
    outcomes = np.stack([partners @ (row[:, None] == rewards) for row in payoffs])
    return TrialProblem(np.full(len(partners), 1 / len(partners)), outcomes, payoffs @ partners.T)


def slow_value(problem: TrialProblem, belief: np.ndarray, left: int) -> float:
    """The recursion of the module, without any merging."""
    if left == 0:
        return 0.0
    totals = []
    for outcomes, returns in zip(problem.outcomes, problem.returns, strict=True):
        after = [slow_value(problem, belief * outcomes[:, o], left - 1) for o in range(outcomes.shape[1])]
        totals.append(belief @ returns + sum(after))
    return max(totals)


def random_problem(seed: int, arms: int = 3, partners: int = 3, outcomes: int = 3) -> TrialProblem:
    chance = np.random.default_rng(seed)
    rewards = chance.normal(size=(arms, outcomes))
    likelihood = chance.dirichlet(np.ones(outcomes), size=(arms, partners))
    likelihood[0] = likelihood[0, 0]  # an arm that says nothing about the partner
    return TrialProblem(chance.dirichlet(np.ones(partners)), likelihood, np.einsum("apo,ao->ap", likelihood, rewards))


def play(problem: TrialProblem, trials: int, episodes: int) -> PlayedEpisodes:
    """Episodes drawn from the problem itself, each worth its mean."""
    chance = np.random.default_rng(1)
    arms, partners, outcomes = problem.outcomes.shape
    seen = np.stack(
        [
            [chance.choice(outcomes, size=(trials, episodes), p=problem.outcomes[a, p]) for p in range(partners)]
            for a in range(arms)
        ]
    )
    return PlayedEpisodes(seen, np.broadcast_to(problem.returns[..., None, None], seen.shape))


def test_one_look_tells_two_pure_partners_apart() -> None:
    """Coordination on two actions: one episode by guess, all others right."""
    problem = observed(np.eye(2), np.eye(2))
    for episodes in (1, 2, 20):
        assert solve_exactly(problem, episodes) == pytest.approx((episodes - 0.5) / episodes)


def test_partners_who_answer_alike_are_never_told_apart() -> None:
    problem = TrialProblem(EVEN, np.full((2, 2, 1), 1.0), np.eye(2))
    assert solve_exactly(problem, 20) == pytest.approx(0.5)


def test_it_pays_to_look_where_looking_costs() -> None:
    """A third arm earns nothing and tells all: worth it with four episodes, as 3 / 4 exceeds the 1 / 2 of a guess."""
    outcomes = np.array([[[1.0, 0.0]] * 2, [[1.0, 0.0]] * 2, np.eye(2)])
    problem = TrialProblem(EVEN, outcomes, np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    assert [solve_exactly(problem, t) for t in (1, 2, 4)] == pytest.approx([0.5, 0.5, 0.75])


@pytest.mark.parametrize("seed", range(6))
def test_counts_of_evidence_give_what_the_recursion_gives(seed: int) -> None:
    problem = random_problem(seed)
    for episodes in (1, 2, 4):
        exact = solve_exactly(problem, episodes)
        assert exact == pytest.approx(slow_value(problem, problem.prior, episodes) / episodes)


def test_the_paper_s_matrix_game_is_solved_for_twenty_episodes() -> None:
    mixed = 0.55 * np.eye(3) + 0.15
    problem = observed(PAYOFFS, np.concatenate([np.eye(3), mixed]))
    exact = solve_exactly(problem, 20)
    assert exact is not None
    informed = problem.returns.max(axis=0)
    assert informed.mean() == pytest.approx(39.8 / 6), "the oracles of docs/concepts/oracles.md"
    assert problem.returns.mean(axis=1).max() < exact < informed.mean()
    found = play_look_ahead(problem, play(problem, 200, 20))
    assert exact - 0.15 < found.mean < exact + 3 * found.standard_error


@pytest.mark.parametrize("seed", range(4))
def test_bounds_stand_in_their_order(seed: int) -> None:
    """Blind <= covering <= Bayes <= free information <= told the partner after one episode <= oracle."""
    chance = np.random.default_rng(seed)
    partners, payoffs = chance.dirichlet(np.ones(3), size=4), chance.normal(size=(4, 3))
    bayes, covering = observed(payoffs, partners), observed(payoffs[:2], partners)
    values = [solve_exactly(problem, 6) for problem in (covering, bayes)]
    assert None not in values
    blind, informed = bayes.returns.mean(axis=1).max(), bayes.returns.max(axis=0)
    told = bound_informed(bayes.prior, blind, informed, 6)
    free = bound_by_free_information(
        np.random.default_rng(0),
        bayes.prior,
        partners,
        lambda belief: float((bayes.returns @ belief).max()),
        times=(0, 1, 3, 5),
        episodes=6,
        trials=200,
    )
    assert covering.returns.mean(axis=1).max() <= values[0] <= values[1] <= told <= informed.mean()
    assert values[1] - 3 * free.standard_error <= free.mean <= told + 3 * free.standard_error


def test_too_many_beliefs_are_not_solved() -> None:
    assert solve_exactly(random_problem(0), 20, most_states=1000) is None
    assert solve_exactly(random_problem(0, arms=8, outcomes=40), 3, most_states=10**9) is None


def test_outcomes_are_returns_and_lengths_until_there_are_too_many() -> None:
    returns, lengths = np.array([0.0, 1.0, 1.0, 0.0]), np.array([3, 3, 4, 3])
    number, kinds = number_outcomes(returns, lengths)
    assert kinds == 3
    assert number[0] == number[3] != number[1] != number[2]
    number, kinds = number_outcomes(returns, lengths, most=2)
    assert (kinds, number.tolist()) == (2, [0, 1, 1, 0])
    number, kinds = number_outcomes(np.linspace(0.0, 1.0, 50), np.ones(50, int), most=5)
    assert (kinds, number.min(), number.max()) == (5, 0, 4)


def test_counted_likelihoods_sum_to_one_and_rule_nothing_out_that_an_arm_has_seen() -> None:
    counted = count_outcomes(np.array([[[0, 0, 1], [0, 0, 0]]]), 3)
    np.testing.assert_allclose(counted.sum(axis=2), 1.0)
    assert counted[0, 1, 1] > 0 == counted[0, 1, 2]
