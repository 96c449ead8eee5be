"""The studio in a real browser: headless Chromium, driven by keys."""

import contextlib
import os
import re
import shutil

import pytest

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


@pytest.fixture(params=[1400, 400], ids=["desk", "phone"])
def page(browser, request):
    """A page that must not log errors to its console or be wider than its window."""
    scheme = "light" if request.param > 1000 else "dark"
    with contextlib.closing(
        browser.new_context(viewport={"width": request.param, "height": 900}, color_scheme=scheme)
    ) as context:
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        opened = context.new_page()
        problems: list[str] = []
        opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda error: problems.append(str(error)))
        yield opened
        assert problems == []
        assert opened.evaluate("document.documentElement.scrollWidth") <= request.param


def test_the_overview_opens_and_leads_to_the_curves_of_a_run(shared, page):
    page.goto(shared.address)
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    expect(page.locator("table.runs")).to_have_count(4)
    page.get_by_role("link", name="Curves: matrix, seed 0").click()
    expect(page.get_by_role("img", name=re.compile("Mean return while training"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Lagrange multipliers"))).to_be_visible()


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
    for title in ("Lagrange multipliers", "novelty bonus", "temperature"):
        expect(page.get_by_role("img", name=re.compile(title))).to_be_visible()


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
