"""The coverage suite: games with known coverage sets, and how much of them each method finds.

    matrix        random matrix games, 3 to 6 actions, symmetric and not: exact sets by the solver
    dec-pomdp     random finite Dec-POMDPs: exact sets of their normal forms
    grid          random payoffs for the corners of a small grid: exact sets of the convention payoffs
    paper         the paper's four games
    signalling    three symbols, messages and buttons: six permutations

Methods that are told the number of pairs are told the size of the exact set, but at least 2; `growing` finds it. Games
of the first two parts train side by side, those of the others are runs of `coverset generate` below `out`. Every group
of runs is one file, `rows/*.json`, that is written when the group is done: a suite that was stopped goes on.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from coverset.bench.coverage_batch import TrainedGame, read_mixes, train_batch
from coverset.bench.coverage_judging import ROUNDING, judge, summarise
from coverset.bench.random_games import (
    RandomDecPOMDP,
    TableGame,
    draw_corner_payoffs,
    draw_dec_pomdp,
    draw_table,
    make_table_game,
)
from coverset.certificates.finite import action_probabilities, enumerate_game
from coverset.certificates.normal_form import make_normal_form
from coverset.checks import check_at_least, check_one_of
from coverset.envs import registry
from coverset.envs.base import Environment
from coverset.pipeline.generate import check_seeds, generate
from coverset.presets import resolve_generation
from coverset.runs.storage import read_json, to_jsonable, write_json
from coverset.solver import Solution, solve
from coverset.solver.regret import coverage_regret, due_members
from coverset.teammates.registry import METHODS, method_class

PARTS = ("matrix", "dec-pomdp", "grid", "paper", "signalling")
PAPER = ("matrix", "reaching", "weighted-reaching", "foraging")
GRID = {"size": 3, "horizon": 12, "ends_apart": True}
TOGETHER = 25
"""Games that train in one program."""


@dataclass(frozen=True)
class SuiteSettings:
    """What of the suite is run."""

    parts: tuple[str, ...] = PARTS
    methods: tuple[str, ...] = ("growing", "lbrdiv", "brdiv", "lipo")
    seeds: tuple[int, ...] = (0,)
    games: int = 100
    """Random matrix games; a tenth as many Dec-POMDPs and grid games."""
    first_game: int = 0
    """Number of the first random game."""
    steps: int | None = None
    """Environment steps of every run at most; those of the defaults if not given."""

    def __post_init__(self) -> None:
        for part in self.parts:
            check_one_of("part", part, PARTS)
        for method in self.methods:
            if ":" not in method:
                check_one_of("method", method, METHODS)
        check_seeds(self.seeds)
        check_at_least("games", self.games, 1)
        check_at_least("first_game", self.first_game, 0)

    def numbers(self, part: str) -> range:
        """Numbers of a part's random games."""
        count = self.games if part == "matrix" else max(1, self.games // 10)
        return range(self.first_game, self.first_game + count)


@dataclass(frozen=True, eq=False)
class KnownGame:
    """A random game with its normal form and exact coverage set."""

    number: int
    environment: TableGame | RandomDecPOMDP
    payoffs: np.ndarray
    exact: Solution
    serve: Callable[[TrainedGame], np.ndarray]
    """What best responses earn with every column."""


def bench_coverage(
    settings: SuiteSettings, *, out: str | Path, on_start: Callable[[str], None] = lambda words: None
) -> dict[str, Any]:
    """Run the suite, or what is left of it, and write `coverage.json` and `coverage.png`.

    Args:
      settings: parts, methods, seeds and sizes.
      out: directory of everything.
      on_start: called with a few words before each group of runs.
    Returns:
      The content of `coverage.json`: `summary`, a line for each part and method, and `runs`, one for each run.
    """
    from coverset.bench.coverage_figure import coverage_figure
    from coverset.reports.figures import save_figure

    out = Path(out)
    rows: list[dict[str, Any]] = []
    for part in settings.parts:
        for method in settings.methods:
            groups = (
                _batches(part, method, settings)
                if part in ("matrix", "dec-pomdp")
                else _runs(part, method, settings, out)
            )
            for name, run in groups:
                on_start(f"{part}: {method}, {name}")
                rows += _keep(out / "rows" / f"{part}--{method.replace(':', '-')}--{name}.json", settings, run)
    record = {"settings": to_jsonable(settings.__dict__), "summary": summarise(rows), "runs": rows}
    save_figure(out / "coverage.png", coverage_figure(record["summary"]))
    write_json(out / "coverage.json", round_floats_in(record))
    return record


def round_floats_in(record: Any) -> Any:
    """A record whose floats have six digits."""
    return jax.tree.map(lambda x: float(f"{x:.6g}") if isinstance(x, float) else x, record)


def _keep(path: Path, settings: SuiteSettings, run: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows of a group, from its file if they were made with as many steps."""
    if path.is_file():
        kept = read_json(path)
        if isinstance(kept, dict) and kept.get("steps") == settings.steps:
            return kept["rows"]
        raise ValueError(
            f"{path} has runs of {kept.get('steps')} steps, not of {settings.steps}: choose another `out`."
        )
    rows = round_floats_in(run())
    write_json(path, {"steps": settings.steps, "rows": rows})
    return rows


def _batches(
    part: str, method: str, settings: SuiteSettings
) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Groups of random games of one shape and, where a method is told K, one size."""
    make = _know_table if part == "matrix" else _know_dec_pomdp
    games = [make(number) for number in settings.numbers(part)]
    told = method_class(method).default_settings is None
    groups: dict[tuple[Any, ...], list[tuple[KnownGame, int]]] = {}
    for game in games:
        size = max(2, len(game.exact.coverage_set)) if told else None
        groups.setdefault((game.environment.rewards.shape, size), []).extend((game, seed) for seed in settings.seeds)
    for (shape, size), runs in groups.items():
        for first in range(0, len(runs), TOGETHER):
            some = runs[first : first + TOGETHER]
            label = (
                f"{shape[1]}-actions-{'auto' if size is None else size}-{some[0][0].number}-{some[0][1]}-x{len(some)}"
            )
            yield label, lambda some=some, size=size: _train_known(part, method, size, some, settings)


def _train_known(
    part: str, method: str, size: int | None, runs: Sequence[tuple[KnownGame, int]], settings: SuiteSettings
) -> list[dict[str, Any]]:
    changes: dict[str, Any] = {} if size is None else {"population_size": size}
    changes |= {} if settings.steps is None else {"total_steps": settings.steps}
    shared, chosen = resolve_generation(part, method, "fast", **changes)
    environments = [game.environment for game, _ in runs]
    shared = shared.for_horizon(environments[0].horizon)
    began = time.perf_counter()
    # Every game and seed is a run of its own; seeds of one game differ in their random numbers alone.
    trained = train_batch(environments, [1_000_003 * game.number + seed for game, seed in runs], chosen, shared)
    seconds = (time.perf_counter() - began) / len(runs)
    rows = []
    for (game, seed), found in zip(runs, trained, strict=True):
        verdict = judge(game.payoffs, game.exact, game.serve(found), margin=found.margin)
        about = {"part": part, "method": method, "game": str(game.number), "seed": seed, "regret_is_exact": True}
        rows.append({**about, **verdict, "env_steps": found.env_steps, "seconds": seconds})
    return rows


def _know_table(number: int) -> KnownGame:
    table = draw_table(number)
    return KnownGame(
        number, make_table_game(table), table, solve(table), lambda found: read_mixes(found.best_responses) @ table
    )


def _know_dec_pomdp(number: int) -> KnownGame:
    environment = draw_dec_pomdp(number)
    form = make_normal_form(enumerate_game(environment))
    return KnownGame(
        number,
        environment,
        form.payoffs,
        solve(form.payoffs),
        lambda found: form.evaluate(action_probabilities(found.best_responses, form.game, seat=0)),
    )


def _runs(
    part: str, method: str, settings: SuiteSettings, out: Path
) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Games whose conventions are known, each with all seeds."""
    for name, env, parameters in _list_games(part, settings):
        yield (
            name,
            lambda name=name, env=env, parameters=parameters: _generate(
                part, name, env, parameters, method, settings, out
            ),
        )


def _list_games(part: str, settings: SuiteSettings) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, environment and parameters."""
    if part == "paper":
        return [(name, name, {}) for name in PAPER]
    if part == "signalling":
        return [(part, part, {})]
    return [
        (str(number), "reaching", {**GRID, "payoffs": draw_corner_payoffs(number)}) for number in settings.numbers(part)
    ]


def _generate(
    part: str,
    name: str,
    env: str,
    parameters: dict[str, Any],
    method: str,
    settings: SuiteSettings,
    out: Path,
) -> list[dict[str, Any]]:
    """Runs of one game, judged by the conventions of its pairs."""
    environment = registry.make(env, **parameters)
    payoffs = np.asarray(environment.convention_payoffs, float)
    exact = solve(payoffs)
    changes: dict[str, Any] = {} if settings.steps is None else {"total_steps": settings.steps}
    if method_class(method).default_settings is None:
        changes["population_size"] = max(2, len(exact.coverage_set))
    place = out / "runs" / f"{part}-{name}-{method.replace(':', '-')}"
    runs = generate(
        env,
        method=method,
        seeds=settings.seeds,
        env_parameters=parameters,
        out=place,
        resume=True,
        progress=False,
        **changes,
    )
    about = {"part": part, "method": method, "game": name, "regret_is_exact": False}
    return [{**about, "seed": run.seed, **judge_conventions(environment, exact, payoffs, run)} for run in runs]


def judge_conventions(
    environment: Environment, exact: Solution, payoffs: np.ndarray, run: dict[str, Any]
) -> dict[str, Any]:
    """Compare a run with the exact set of its convention payoffs.

    Its coverage regret is that of the conventions that its pairs hold; a population that holds none leaves all.
    """
    held = {environment.conventions.index(name) for name in run["covers"] if name}
    margin, size = run["margin"], run["population_size"]
    due = due_members(exact.coverage_set, exact.margins, margin)
    served = payoffs[sorted(held)] if held else np.full((1, payoffs.shape[1]), min(0.0, payoffs.min()))
    regret = max(coverage_regret(payoffs, served).low, 0.0)
    return {
        "exact_size": len(exact.coverage_set),
        "due": len(due),
        "found": len(due & held),
        "size_found": size,
        "whole": due <= held,
        "size_right": bool(regret <= margin + ROUNDING and size == len(held)),
        "size_as_due": size == len(due),
        "coverage_regret": regret,
        "margin": margin,
        "env_steps": run["env_steps"],
        "seconds": run["train_seconds"],
    }
