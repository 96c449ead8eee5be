"""Three players, legal actions, rewards by seat: who sits where, what a person may do, and what a person may know."""

import jax
import numpy as np
import pytest

from coverset.envs.conformance import check_environment
from coverset.envs.drawing import Board, Grid, Scene
from coverset.envs.extensions import draw_board, draw_scene
from coverset.envs.matrix import MatrixGame
from coverset.envs.reaching import Reaching
from coverset.envs.registry import make
from coverset.policy import Policy
from coverset.studio import trials
from coverset.studio.boards import describe_board, describe_scene
from coverset.studio.files import SafeDirectory
from coverset.studio.match import Match
from coverset.studio.partners import Partner
from coverset.studio.recordings import RecordingStore
from coverset.studio.replays import person_steps
from coverset.studio.seating import plan_seats
from studio_client import move, play_first_legal, start
from turns import NUMBERS, Naming


class Seen(Policy):
    """Plays the seat that it is told; its memory counts its steps."""

    def initial_memory(self):
        return 0

    def act(self, key, percept, memory):
        return percept.seat, memory + 1


def test_the_test_game_keeps_the_contract():
    check_environment(Naming(), quick=True)


def partner(reference: str, seat: int) -> Partner:
    return Partner(reference, reference, Seen(), seat)


@pytest.mark.parametrize(
    ("players", "chosen", "person", "seats"),
    [
        (2, partner("agent:rl2", 0), None, (1, 0, "p-")),
        (2, partner("agent:rl2", 1), None, (0, 0, "-p")),
        (2, partner("teammate:1", 1), 0, (0, 0, "-p")),
        (3, partner("teammate:1", 1), None, (0, 0, "-pp")),
        (3, partner("heuristic:H1", 1), 2, (2, 2, "pp-")),
        (3, partner("best-response:1", 0), None, (1, 0, "p-t")),
        (4, partner("agent:rl2", 0), 3, (3, 0, "ptt-")),
        (3, partner("agent:rl2", 2), None, (0, 2, "-tp")),
    ],
)
def test_who_sits_where(players, chosen, person, seats):
    team = partner("teammate:2", 1) if chosen.is_ego and players > 2 else None
    plan = plan_seats(Reaching(players=players), chosen, team, person)
    letters = {id(chosen.policy): "p", id(None if team is None else team.policy): "t", id(None): "-"}
    assert (plan.person, plan.ego, "".join(letters[id(policy)] for policy in plan.policies)) == seats


@pytest.mark.parametrize(
    ("environment", "chosen", "person", "words"),
    [
        (Reaching(), partner("teammate:1", 1), 1, "seat must be 0 with this partner, got 1"),
        (Reaching(players=3), partner("agent:rl2", 0), 0, "seat must be 1 or 2 with this partner, got 0"),
        (Reaching(players=3), partner("teammate:1", 1), 3, "seat must be 0, 1 or 2, got 3"),
        (Naming(), partner("teammate:1", 1), 1, "seat must be 0 in a game of 3 players whose seats are not alike"),
    ],
)
def test_seats_that_are_not_free_are_refused(environment, chosen, person, words):
    with pytest.raises(ValueError, match=words):
        plan_seats(environment, chosen, None, person)


def test_policies_know_their_seats_counted_from_the_egos():
    match = Match(Reaching(players=3), (Seen(), None, Seen()), 0, ego=1)
    assert match.step({1: 4}).actions == (2, 4, 1)
    assert match.memories == (1, None, 1)
    with pytest.raises(ValueError, match="a game of 3 players needs as many policies, got 2"):
        Match(Reaching(players=3), (Seen(), None), 0)


@pytest.mark.parametrize("seat", [0, 1, 2])
def test_a_person_is_told_nothing_about_the_others_until_the_episode_ends(several, seat):
    trial = start(several, "reaching/seed-0", "teammate:1", seat=seat, seed=5)
    assert trial["seat"] == seat
    frames, over = [*trial["frames"]], False
    while not over:
        answer = move(several, trial, len(frames) - 1, 0).json
        frames += answer["frames"]
        over = answer["over"]
    others = [other for other in range(3) if other != seat]
    assert len(frames) == 13
    for frame in frames[:-1]:
        assert set(frame) <= {"time", "scene", "legal", "actions", "rewards"}
        assert [frame["scene"]["positions"][other] for other in others] == [None, None]
        assert frame["scene"]["positions"][seat] is not None
        assert (frame["scene"]["played"], frame["scene"]["objects"], frame["scene"]["words"]) == (None, [], "")
        assert [frame.get("actions", [None] * 3)[other] for other in others] == [None, None]
        assert [frame.get("rewards", [None] * 3)[other] for other in others] == [None, None]
    assert None not in frames[-1]["scene"]["positions"] + frames[-1]["actions"] + frames[-1]["rewards"]
    assert frames[-1]["ended"] == "truncated"


def test_a_reloaded_page_is_told_no_more(several):
    trial = start(several, "foraging/seed-0", "teammate:1")
    move(several, trial, 0, 1)
    (frame,) = several.get(f"/api/trials/{trial['trial']}").json["frames"]
    assert frame["scene"]["positions"][1:] == [None, None]
    assert "actions" not in frame


def test_a_person_can_be_a_teammate_of_a_best_response_beside_another_teammate(several):
    trial = start(several, "reaching/seed-0", "best-response:2", seat=2)
    assert (trial["seat"], trial["partner"]["seat"]) == (2, 0)
    assert trial["team"] == {"reference": "teammate:2", "name": "teammate 2"}
    answer = move(several, trial, 0, 0).json
    assert answer["frames"][0]["actions"] == [None, None, 0]
    chosen = start(several, "reaching/seed-0", "best-response:2", team="heuristic:H1")
    assert (chosen["seat"], chosen["team"]["name"]) == (1, "heuristic H1")
    message = {"run": "reaching/seed-0", "partner": "teammate:1", "episodes": 1, "seed": 0, "team": "teammate:2"}
    refused = several.post("/api/trials", message)
    assert refused.status == 400
    assert "team must be left out" in refused.json["error"]


def test_an_agent_sits_where_it_was_trained(several):
    trial = start(several, "reaching/seed-0", "agent:plastic", team="heuristic:H1")
    assert (trial["seat"], trial["partner"]["seat"]) == (2, 1)
    message = {"run": "reaching/seed-0", "partner": "agent:plastic", "episodes": 1, "seed": 0, "seat": 1}
    assert several.post("/api/trials", message).json["error"] == "seat must be 0 or 2 with this partner, got 1."


def test_the_oracle_is_unknown_for_one_of_several_teammates(several):
    def oracle(partner: str) -> float | None:
        trial = start(several, "reaching/seed-0", partner)
        answers = [move(several, trial, step, 0).json for step in range(12)]
        return answers[-1]["frames"][-1]["score"]["oracle"]

    assert oracle("best-response:1") is None
    assert oracle("teammate:1") == oracle("heuristic:H8") == 1.0


def test_a_pair_of_three_players_can_be_watched(several):
    watched = several.get("/api/watch?run=reaching/seed-0&best_response=1&teammate=2&seed=0").json
    (frames,) = watched["episodes"]
    assert (watched["board"]["num_seats"], watched["seat"]) == (3, 0)
    assert all(len(frame["scene"]["positions"]) == len(frame.get("actions", (0, 0, 0))) == 3 for frame in frames)
    assert len(frames[-1]["conventions"]) == 3


def test_illegal_moves_are_refused_and_change_nothing(several):
    trial = start(several, "naming/seed-0", "teammate:1")
    assert trial["frames"][0]["legal"] == [True] * NUMBERS
    first = move(several, trial, 0, 2).json
    assert [frame["time"] for frame in first["frames"]] == [1, 2, 3]
    legal = first["frames"][-1]["legal"]
    assert (sum(legal), legal[2], first["step"]) == (2, False, 3)
    refused = move(several, trial, 3, 2)
    assert refused.status == 400
    allowed = ", ".join(str(number) for number in range(NUMBERS) if legal[number])
    assert refused.json["error"] == f"action must be legal in this state: {allowed}, got 2."
    assert several.get(f"/api/trials/{trial['trial']}").json["step"] == 3


@pytest.mark.parametrize(
    ("chosen", "seat", "times"),
    [("teammate:1", 0, [0]), ("best-response:1", 1, [0, 1]), ("best-response:1", 2, [0, 1, 2])],
)
def test_steps_without_a_choice_are_played_without_asking(several, chosen, seat, times):
    trial = start(several, "naming/seed-0", chosen, episodes=2, seat=seat)
    assert [frame["time"] for frame in trial["frames"]] == times
    frames = play_first_legal(several, trial)
    assert [frame["time"] for frame in frames] == [*range(NUMBERS + 1)] * 2
    recording = several.get("/api/recordings").json["recordings"][0]["name"]
    steps = person_steps(RecordingStore(SafeDirectory(several.directory)).load(recording), Naming())
    assert steps.partner_actions.shape == (2 * NUMBERS, 2)
    assert steps.legal[np.arange(2 * NUMBERS), steps.actions].all()
    assert steps.legal.sum(axis=1).tolist()[:NUMBERS] == [
        NUMBERS - time if time % 3 == seat else 1 for time in range(NUMBERS)
    ]


def test_one_request_plays_a_bounded_number_of_steps(several, monkeypatch):
    monkeypatch.setattr(trials, "MOST_FORCED", 1)
    trial = start(several, "naming/seed-0", "best-response:1", seat=2)
    assert [frame["time"] for frame in trial["frames"]] == [0, 1]
    assert trial["frames"][-1]["legal"] == [False] * NUMBERS
    refused = move(several, trial, 1, 3)
    assert refused.json["error"] == "action must be legal in this state: 0, which passes, got 3."
    assert move(several, trial, 1, 0).json["frames"][-1]["time"] == 2


def test_secrets_are_shown_in_the_end_and_returns_by_seat(several):
    seen = []
    for seed in range(6):
        trial = start(several, "naming/seed-0", "teammate:1", seed=seed)
        frames = play_first_legal(several, trial)
        assert all(frame["scene"]["text"].split(",")[0].endswith("? ?") for frame in frames[:-1])
        assert "?" not in frames[-1]["scene"]["text"]
        score = frames[-1]["score"]
        assert sum(score["returns"]) == 0
        assert score["return"] == score["returns"][0] == sum(frame["rewards"][0] for frame in frames[1:])
        seen.append(tuple(score["returns"]))
        replayed = several.get("/api/recordings").json["recordings"][0]
        assert replayed["returns"] == [score["return"]]
    assert len(set(seen)) > 1
    assert not trial["board"]["common_reward"]


def test_two_players_with_rewards_of_their_own_see_their_own():
    rock = Match(MatrixGame(payoffs=(((0, -1), (1, 0)), ((0, 1), (-1, 0))), by_player=True), (None, None), 0)
    assert rock.step({0: 0, 1: 1}).rewards == (-1.0, 1.0)


def test_a_game_that_shows_everything_stays_as_it_is():
    """Neither `render` nor a registered drawing needs to know of seats."""

    class Open(Naming):
        def render(self, state):
            return "everything"

    state = jax.device_get(Open().reset(jax.random.key(0)))
    assert describe_scene(Open(), state, 1) == {"text": "everything"}
    assert not describe_board(Open())["shown_by_seat"]
    match = Match(Open(), (None,) * 3, 0)
    assert match.frame(match.step({0: 1, 1: 0, 2: 0}), seat=1)["actions"] == [1, 0, 0]
    draw_board.register(Open)(lambda environment: Board("Name.", ((),) * 3, Grid(1, 1)))
    draw_scene.register(Open)(lambda environment, state: Scene(((0, 0),) * 3))
    assert describe_scene(Open(), state, 1)["positions"] == ((0, 0),) * 3
    assert not describe_board(Open())["shown_by_seat"]
    assert describe_board(Reaching(players=3))["shown_by_seat"]


def test_a_two_player_game_is_hidden_on_the_server_too(shared):
    trial = start(shared, "weighted/seed-0", "heuristic:H8")
    assert trial["frames"][0]["scene"]["positions"][1] is None
    assert make("weighted-reaching").board().hides_partner


def test_a_drawing_without_seats_hides_partners_who_do_not_see_each_other():
    environment = make("lamps:Lamps")
    match = Match(environment, (None, None), 0)
    step = match.step({0: 1, 1: 2})
    frame = match.frame(step, seat=1)
    assert describe_board(environment)["shown_by_seat"]
    assert (frame["scene"]["positions"], frame["scene"]["words"]) == ((None, (1, 2)), "")
    assert frame["actions"] == [None, 2]
    end = match.frame(match.step({0: 0, 1: 2}), seat=1)
    assert end["scene"]["positions"] == ((1, 0), (1, 2))
    assert end["actions"] == [0, 2]
