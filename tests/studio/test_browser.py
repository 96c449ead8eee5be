"""The studio in a real browser: headless Chromium, driven by keys."""

import contextlib
import os
import re
import shutil

import pytest

from coverset.studio import trials

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("No Chromium is installed: apt-get install chromium.", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

SECONDS = 1000
PATIENCE = 90 * SECONDS
"""Timeout for loading and compiling policies."""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield chromium
        chromium.close()


@pytest.fixture(params=[(1400, 900), (390, 844)], ids=["desk", "phone"])
def page(browser, request):
    with watched_page(browser, *request.param) as opened:
        yield opened


@pytest.fixture
def laptop(browser):
    with watched_page(browser, 1280, 800) as opened:
        yield opened


@contextlib.contextmanager
def watched_page(browser, width: int, height: int):
    """A page that must not log errors to its console or be wider than its window."""
    scheme = "light" if width > 1000 else "dark"
    with contextlib.closing(
        browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    ) as context:
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        opened = context.new_page()
        problems: list[str] = []
        opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda error: problems.append(str(error)))
        yield opened
        assert problems == []
        assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_the_overview_opens_and_leads_to_the_curves_of_a_run(shared, page):
    page.goto(shared.address)
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    expect(page.locator("table.runs")).to_have_count(4)
    page.get_by_role("link", name="Curves: matrix, seed 0").click()
    expect(page.get_by_role("img", name=re.compile("Mean return while training"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Lagrange multipliers")).first).to_be_visible()


def test_fields_of_any_method_are_charted(shared, page):
    def add_fields(route):
        details = route.fetch().json()
        count = len(details["curves"]["env_steps"])
        square = [[0.0, 0.5], [0.25, 0.0]]
        details["curves"]["method"] = {
            "multipliers": {"other_best_response": [square] * count, "other_teammate": [square] * count},
            "novelty_bonus": {"": [0.5] * count},
            "temperature": {"": [[1.0, None]] * count},
        }
        route.fulfill(json=details)

    page.route("**/api/run?*", add_fields)
    page.goto(f"{shared.address}#/run?run=matrix/seed-0")
    for title in ("novelty bonus", "temperature"):
        expect(page.get_by_role("img", name=re.compile(title))).to_be_visible()
    multiples = page.get_by_role("img", name=re.compile("Lagrange multipliers, pair"))
    expect(multiples).to_have_count(2)
    expect(multiples.first).to_have_attribute("aria-label", re.compile("against other best responses: .* 0.5 last"))


def cells(page) -> list[str | None]:
    return [page.locator(f".player.seat-{seat}").get_attribute("data-cell") for seat in (0, 1)]


def test_a_cell_is_opened_by_keys_and_the_agents_move(shared, page):
    page.goto(f"{shared.address}#/cross-play?run=weighted/seed-0")
    page.locator(".heat button").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Best response 1 with teammate 2")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Pause").click()
    seen = {tuple(cells(page))}
    for _ in range(8):
        page.get_by_role("button", name="Step forward").click()
        seen.add(tuple(cells(page)))
    assert len(seen) > 1
    expect(page.locator(".viewer .status")).to_contain_text("Return")
    page.get_by_role("button", name="New start").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


def test_two_runs_are_compared_side_by_side(shared, page):
    page.goto(f"{shared.address}#/cross-play?run=matrix/seed-0")
    page.get_by_label("Compare with").select_option("matrix/seed-1")
    expect(page.locator("table.heat")).to_have_count(2)


def test_the_coverage_page_names_members_that_were_not_found(shared, page):
    page.goto(f"{shared.address}#/coverage?run=matrix/seed-0")
    expect(page.locator("table.slacks")).to_be_visible()
    expect(page.locator(".chips li")).to_have_count(3)


def walk_to_a(page) -> None:
    """Play one episode of weighted reaching with the arrow keys: walk to corner A and wait there."""
    status = page.locator(".trial .status")
    while "over" not in (status.text_content() or ""):
        row, column = map(int, (page.locator(".player.seat-0").get_attribute("data-cell") or "").split(","))
        before = status.text_content() or ""
        page.keyboard.press("ArrowUp" if row else "ArrowLeft" if column else "Space")
        expect(status).not_to_have_text(before)


def test_a_trial_is_played_with_keys_found_after_a_reload_and_replayed(shared, page):
    page.goto(f"{shared.address}#/play?run=weighted/seed-0")
    page.get_by_label("Partner").locator("option[value='heuristic:H8']").wait_for(state="attached")
    page.get_by_label("Partner").select_option("heuristic:H8")
    page.get_by_label("Episodes").fill("3")
    page.get_by_role("button", name="Start the trial").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".trial .stage")).to_be_focused()
    expect(page.locator(".player.seat-1")).to_have_class(re.compile("hidden"))
    for episode in range(1, 4):
        walk_to_a(page)
        expect(page.locator("#score")).to_have_text(str(10 * episode))
        if episode < 3:
            page.keyboard.press("Enter")
            expect(page.locator(".trial .status")).to_contain_text(f"Episode {episode + 1} of 3, step 0")
    expect(page.get_by_role("heading", name="The trial is over")).to_be_visible()
    page.goto(f"{shared.address}#/recordings")
    page.reload()
    row = page.locator("table.stack tbody tr").first
    expect(row).to_contain_text("30 of 30")
    row.get_by_role("link", name="Replay").click()
    expect(page.locator(".viewer .status")).to_contain_text("Episode 1 of 3")
    page.locator(".viewer select").first.select_option("2")
    expect(page.locator(".viewer .status")).to_contain_text("Return 10. The episode is over")
    with page.expect_download() as download:
        page.locator("table.stack tbody tr").first.get_by_role("link", name="Download").click()
    assert '"coverset recording 2"' in download.value.path().read_text()


def test_a_trial_goes_on_after_a_reload_and_buttons_do_what_keys_do(shared, page):
    page.goto(f"{shared.address}#/play")
    page.get_by_label("Run").select_option("matrix/seed-0")
    page.get_by_label("Partner").select_option("agent:plastic")
    page.get_by_role("button", name="Start the trial").click()
    page.get_by_role("button", name="action 2").click()
    expect(page.locator(".scores li")).to_have_count(1)
    page.reload()
    expect(page.locator(".scores li")).to_have_count(1)
    page.keyboard.press("1")
    expect(page.locator(".scores li")).to_have_count(2)


def played_with(page, shared, partner: str, keys: str) -> None:
    """Play one-step episodes of the matrix game with a partner."""
    start_trial(page, shared, "matrix/seed-0", partner, episodes=len(keys))
    for number, key in enumerate(keys, start=1):
        page.keyboard.press(key)
        expect(page.locator(".scores li")).to_have_count(number)
    expect(page.get_by_role("heading", name="The trial is over")).to_be_visible()


def test_a_trial_ends_with_a_verdict_and_with_what_the_agent_believed(shared, page):
    played_with(page, shared, "agent:plastic", "222")
    verdict = page.locator(".done .verdict")
    expect(verdict).to_contain_text(re.compile(r"Together you earned \d+ of 18, \d+% of what a partner who knows"))
    expect(verdict).to_contain_text(
        re.compile("The agent (adapted to you|did not adapt to you|suited you from the start)")
    )
    expect(page.get_by_role("heading", name="What the agent believed")).to_be_visible()
    rows = page.locator(".beliefs tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("action 2")
    expect(rows.first.locator(".share")).to_have_text(["50%", "50%"])


def test_agents_without_a_belief_say_so(shared, page):
    played_with(page, shared, "agent:copy-1", "1")
    expect(page.locator(".beliefs")).to_contain_text("The agent keeps no belief that could be read")
    page.get_by_role("button", name="Play again").click()
    expect(page.locator(".trial .stage")).to_be_focused()


@pytest.mark.parametrize("run", ["weighted/seed-0", "matrix/seed-0", "countdown/seed-0"])
def test_board_and_moves_are_seen_together_and_the_board_fills_its_frame(shared, laptop, run):
    laptop.goto(f"{shared.address}#/play?run={run}")
    expect(laptop.locator("[name=partner]")).to_be_focused()
    for _ in range(2):
        if laptop.evaluate("document.activeElement.textContent") != "Start the trial":
            laptop.keyboard.press("Tab")
    expect(laptop.get_by_role("button", name="Start the trial")).to_be_focused()
    laptop.keyboard.press("Enter")
    expect(laptop.locator(".trial .stage")).to_be_focused()
    for button in laptop.locator(".pad button").all():
        box = button.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 800
    frame, board = (laptop.locator(place).bounding_box() for place in (".trial .stage", ".trial .stage > *"))
    assert board["width"] >= 0.95 * frame["width"]
    assert board["height"] >= 0.95 * frame["height"]


def test_numbers_fit_the_cells_of_a_heat_map_and_all_is_told_on_a_phone(shared, page):
    def change(route):
        wide = [[-1234.5678, 0.000123], [98765.4321, 3.0]]
        route.fulfill(json=route.fetch().json() | {"cross_play": wide, "covers": ["first member", "second member"]})

    page.route("**/api/run?*", change)
    page.goto(f"{shared.address}#/cross-play?run=matrix/seed-0")
    expect(page.locator(".heat button")).to_have_count(4)
    assert page.evaluate("[...document.querySelectorAll('.heat button')].every((x) => x.scrollWidth <= x.clientWidth)")
    expect(page.locator(".heat .axis").first).to_be_visible()
    for words in ("first member", "second member"):
        expect(page.locator(".heat").get_by_text(words, exact=True)).to_be_visible()


def test_a_finished_run_without_named_members_does_not_look_like_a_failure(shared, page):
    unknown = {"coverage_size": None, "coverage_found": 2}

    def change(route):
        content = route.fetch().json()
        if "runs" not in content:
            curves = content["curves"] | {"coverage_found": [0] * len(content["curves"]["env_steps"])}
            route.fulfill(json=content | unknown | {"curves": curves})
        else:
            route.fulfill(json=content | {"runs": [run | unknown for run in content["runs"]]})

    page.route(re.compile("/api/runs?"), change)
    page.goto(shared.address)
    expect(page.locator("table.runs").first).to_contain_text("2 kinds")
    expect(page.get_by_text("so far")).to_have_count(0)
    page.get_by_role("link", name="Curves: matrix, seed 0").click()
    expect(page.get_by_text("Its teammates are of 2 kinds.")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Members of the coverage set"))).to_have_count(0)


def remember_frames(page) -> list[dict]:
    """Note all frames that the server sends about trials, in the order of their arrival."""
    frames: list[dict] = []

    def note(response) -> None:
        if "/api/trials" in response.url:
            assert response.status == 200
            frames.extend(response.json()["frames"])

    page.on("response", note)
    return frames


def start_trial(page, studio, run: str, partner: str, episodes: int = 1) -> None:
    page.goto(f"{studio.address}#/play?run={run}")
    expect(page.get_by_text("of this game can also be chosen")).to_be_visible()
    page.get_by_label("Partner").select_option(partner)
    page.get_by_label("Episodes").fill(str(episodes))
    page.get_by_role("button", name="Start the trial").click()
    expect(page.locator(".trial .stage")).to_be_focused()


@pytest.mark.parametrize("run", ["reaching/seed-0", "foraging/seed-0"])
def test_a_person_plays_one_seat_of_three_and_sees_nobody_else(several, page, run):
    """Neither the responses nor the page have anything about the others before the last step shows them all."""
    frames = remember_frames(page)
    start_trial(page, several, run, "teammate:1")
    expect(page.get_by_role("heading", name="You and the teammate 1 in both other seats")).to_be_visible()
    expect(page.get_by_text("Show the others")).to_have_count(0)
    status = page.locator(".trial .status")
    for key in ["ArrowLeft", "ArrowDown", "ArrowRight", "ArrowUp"] * 3:
        assert page.locator(".player[data-cell]").count() == 1
        own = page.locator(".player.seat-0").get_attribute("data-cell")
        assert own == ",".join(map(str, frames[-1]["scene"]["positions"][0]))
        for seat in (1, 2):
            other = page.locator(f".player.seat-{seat}")
            expect(other).to_have_class(re.compile("hidden"))
            assert not other.get_attribute("style")
        assert "Player" not in (page.locator(".trial .words").text_content() or "")
        before = status.text_content() or ""
        page.keyboard.press(key)
        expect(status).not_to_have_text(before)
        if "ended" in frames[-1]:
            break
    expect(page.get_by_role("heading", name="The trial is over")).to_be_visible()
    assert len(frames) > 2
    for frame in frames[:-1]:
        assert frame["scene"]["positions"][1:] == [None, None]
        assert frame.get("actions", [None] * 3)[1:] == frame.get("rewards", [None] * 3)[1:] == [None, None]
        assert "conventions" not in frame
    expect(page.locator(".player[data-cell]")).to_have_count(3)
    expect(page.locator(".trial .words")).to_contain_text("Player 3: row")
    page.get_by_role("link", name="Replay this trial").click()
    expect(page.locator(".viewer .player[data-cell]")).to_have_count(3)
    expect(page.locator(".viewer .words")).to_contain_text("Player 2")


def test_a_person_can_choose_a_seat_beside_a_best_response(several, page):
    page.goto(f"{several.address}#/play?run=reaching/seed-0")
    page.get_by_label("Your seat").wait_for()
    page.get_by_label("Partner").select_option("agent:plastic")
    expect(page.get_by_label("Your seat").locator("option")).to_have_text(["player 1 of 3", "player 3 of 3"])
    page.get_by_label("Partner").select_option("best-response:2")
    expect(page.get_by_label("The other teammates")).to_have_value("teammate:2")
    page.get_by_label("The other teammates").select_option("heuristic:H3")
    page.get_by_label("Your seat").select_option("2")
    page.get_by_role("button", name="Start the trial").click()
    title = "You, the best response 2 (player 1) and the heuristic H3"
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.locator(".player[data-cell]")).to_have_class(re.compile("seat-2"))


def test_three_players_are_watched(several, page):
    page.goto(f"{several.address}#/cross-play?run=reaching/seed-0")
    page.get_by_role("button", name="Best response 1 with teammate 2").click()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Step forward").click()
    expect(page.locator(".player:not(.hidden)")).to_have_count(3)
    expect(page.locator(".viewer .words")).to_contain_text("Teammate 2 (diamond):")
    expect(page.locator(".description")).to_contain_text("Teammate 2 (square, diamond)")


def test_illegal_actions_are_disabled_and_waiting_needs_no_click(several, page):
    """Seat 0 chooses among five numbers, waits for two turns, and chooses among the two that are left."""
    frames = remember_frames(page)
    start_trial(page, several, "naming/seed-0", "teammate:1")
    status, buttons = page.locator(".trial .status"), page.locator(".pad button")
    expect(status).to_contain_text("step 0 of at most 5. Your turn.")
    expect(page.locator(".pad button:enabled")).to_have_count(5)
    page.keyboard.press("2")
    expect(status).to_contain_text("step 3 of at most 5. Your turn.")
    legal = frames[-1]["legal"]
    assert [buttons.nth(number).is_enabled() for number in range(5)] == legal
    illegal = [number for number in range(5) if not legal[number]]
    assert len(illegal) == 3
    for number in illegal:
        page.keyboard.press(str(number + 1))
    expect(page.locator(".trial .text-board")).to_contain_text("? ?")
    assert len(frames) == 4
    page.keyboard.press(str(legal.index(True) + 1))
    expect(page.get_by_role("heading", name="The trial is over")).to_be_visible()
    expect(status).to_contain_text(re.compile(r"Returns: You: -?\d, Seat 1: -?\d, Seat 2: -?\d"))
    expect(page.locator(".scores li")).to_contain_text("Seat 2:")
    expect(page.locator(".trial .text-board")).not_to_contain_text("?")
    assert all("? ?" in frame["scene"]["text"] for frame in frames[:-1])


def test_a_person_who_cannot_choose_can_pass(several, page, monkeypatch):
    """Beyond the steps that one request plays."""
    monkeypatch.setattr(trials, "MOST_FORCED", 1)
    page.goto(f"{several.address}#/play?run=naming/seed-0")
    page.get_by_label("Your seat").select_option("2")
    page.get_by_role("button", name="Start the trial").click()
    page.get_by_role("button", name="Pass").click()
    expect(page.locator(".trial .status")).to_contain_text("step 2 of at most 5. Your turn.")
    expect(page.get_by_role("button", name="Pass")).to_be_hidden()
