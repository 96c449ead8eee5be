"""`coverset solve`: the exact minimum coverage set of a finite game."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverset.cli.options import read_options
from coverset.runs.storage import write_bytes
from coverset.solver import (
    Preference,
    Solution,
    brdiv,
    coverage_cross_play,
    coverage_set_in_float32,
    lipo,
    load,
    preferred_populations,
    solve,
)
from coverset.solver.coverage import describe_mix

DESCRIPTION = """Find the smallest set of ego actions that contains a best response to every teammate, pure or mixed, of
a two-player game, with a proof for each action: a teammate that requires it, or the reason why it is not needed.

Rows of the payoff table are the ego agent's actions, columns the teammate's. Files: a CSV table with or without names
in its first row and column, or JSON such as {"payoffs": [[2, 0], [0, 1]]} or {"ego": ..., "teammate": ...}, optionally
with "ego_actions" and "teammate_actions".

Examples:
  coverset solve matrix --figure regions.png
  coverset solve payoffs.csv --json
  coverset solve weighted-reaching --diversity
"""


@dataclass(frozen=True)
class Solve:
    """Command-line options."""

    game: tyro.conf.Positional[str]
    """Game: matrix, reaching, weighted-reaching (their corner tables), or the path of a CSV or JSON file."""
    figure: Path | None = None
    """File for a figure of the best-response regions (2 or 3 teammate actions) or of the margins (.png, .svg, .pdf)."""
    out: Path | None = None
    """Also write the solution as JSON to this file."""
    diversity: bool = False
    """Also find the alphas for which BRDiv and LIPO prefer the coverage set (small games)."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments and run the command."""
    return run(read_options(Solve, arguments, command="solve", description=DESCRIPTION))


def run(command: Solve) -> int:
    """Solve, write the requested files, print."""
    _check_paths(command)
    game = load(command.game)
    with Console(stderr=True).status(f"Solving {game.shape[0]} x {game.shape[1]} actions"):
        solution = solve(game)
        played = coverage_set_in_float32(solution)
        preferences = preferred_populations(solution) if command.diversity else ()
    answer = {**solution.to_json(), "coverage_set_in_float32": None if played is None else list(played)}
    if command.diversity:
        answer["diversity"] = _diversity_json(solution, preferences)
    if command.figure is not None:
        from coverset.solver.drawing import draw, save

        save(draw(solution), command.figure)
    if command.out is not None:
        write_bytes(command.out, (json.dumps(answer, indent=2) + "\n").encode())
    if command.json:
        print(json.dumps(answer))
    else:
        _show(solution, preferences, Console())
        if played != solution.coverage_set:
            Console().print(escape(_describe_float32_difference(solution, played)), highlight=False)
    return 0


def _check_paths(command: Solve) -> None:
    """Raise before solving if an output file cannot be written."""
    if command.out is not None and (not command.out.parent.is_dir() or command.out.is_dir()):
        raise ValueError(f"out must be a file in an existing directory, got '{command.out}'.")
    if command.figure is not None:
        from coverset.solver.drawing import check_figure_path  # matplotlib is slow to import

        check_figure_path(command.figure)


def _describe_float32_difference(solution: Solution, played: tuple[int, ...] | None) -> str:
    """One sentence about a game whose coverage set differs in float32."""
    if played is None:
        return "Environments use float32, in which these payoffs overflow or leave the coverage set undecided."
    names = ", ".join(solution.game.ego_actions[action] for action in played)
    return f"Environments use float32, and with payoffs rounded to it other actions are needed: {names}."


def _show(solution: Solution, preferences: tuple[Preference, ...], console: Console) -> None:
    game = solution.game
    names = escape(", ".join(game.ego_actions[action] for action in solution.coverage_set))
    count = f"{len(solution.members)} of {game.shape[0]} actions"
    console.print(f"[bold]{escape(game.name)}[/bold]: {count} are needed: {names}", highlight=False)
    table = Table(title="minimum coverage set", title_justify="left")
    for column in ("index", "action", "a teammate that calls for it", "margin"):
        table.add_column(column, justify="right" if column in ("index", "margin") else "left", overflow="fold")
    for member in solution.members:
        witness = {j: share for j, share in enumerate(member.witness) if share}
        mix = describe_mix(game.teammate_actions, witness)
        margin = "no rival" if member.margin is None else f"{float(member.margin):.6g}"
        table.add_row(str(member.action), escape(game.ego_actions[member.action]), escape(mix), margin)
    console.print(table)
    if solution.non_members:
        table = Table(title="not needed", title_justify="left")
        for column in ("index", "action", "why"):
            table.add_column(column, justify="right" if column == "index" else "left", overflow="fold")
        for item in solution.non_members:
            table.add_row(str(item.action), escape(game.ego_actions[item.action]), escape(item.reason))
        console.print(table)
    if preferences:
        _show_diversity(solution, preferences, console)


def _show_diversity(solution: Solution, preferences: tuple[Preference, ...], console: Console) -> None:
    cross_play = coverage_cross_play(solution)
    objectives = {"BRDiv": brdiv(cross_play), "LIPO": lipo(cross_play)}
    title = f"diversity objectives, best of all {preferences[0].populations} populations of {preferences[0].size} pairs"
    table = Table(title=title, title_justify="left")
    for column in ("method", "coverage set", "best that miss a member (response-teammate)"):
        table.add_column(column, overflow="fold")
    for preference in preferences:
        others = "\n".join(
            f"{other.objective}   {escape(_format_pairs(solution, other.best_responses, other.teammates))}"
            for other in preference.others
        )
        table.add_row(preference.method, str(objectives[preference.method]), others or "none")
    console.print(table)
    for preference in preferences:
        console.print(preference.verdict)


def _format_pairs(solution: Solution, best_responses: tuple[int, ...], teammates: tuple[int, ...]) -> str:
    game = solution.game
    return ", ".join(
        f"{game.ego_actions[i]}-{game.teammate_actions[j]}" for i, j in zip(best_responses, teammates, strict=True)
    )


def _diversity_json(solution: Solution, preferences: tuple[Preference, ...]) -> dict[str, Any]:
    cross_play = coverage_cross_play(solution)
    objectives = {"BRDiv": brdiv(cross_play), "LIPO": lipo(cross_play)}
    return {
        preference.method: {
            "coverage_set_objective": str(objectives[preference.method]),
            "populations": preference.populations,
            "best_others": [
                {
                    "best_responses": list(population.best_responses),
                    "teammates": list(population.teammates),
                    "objective": str(population.objective),
                }
                for population in preference.others
            ],
            "preferred_for": [str(interval) for interval in preference.strictly],
            "tied_or_preferred_for": [str(interval) for interval in preference.at_least_tied],
            "verdict": preference.verdict,
        }
        for preference in preferences
    }
