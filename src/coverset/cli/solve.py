"""`coverset solve`: the exact minimum coverage set of a finite game."""

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverset.cli.json_output import print_json
from coverset.cli.options import read_options
from coverset.runs.storage import write_bytes
from coverset.solver import (
    Game,
    Member,
    Preference,
    Solution,
    Teams,
    brdiv,
    coverage_cross_play,
    coverage_set_in_float32,
    lipo,
    load,
    preferred_populations,
    solve,
)
from coverset.solver.coverage import describe_mix
from coverset.solver.diversity import check_pairs

DESCRIPTION = """Find the smallest set of ego actions that contains a best response to every teammate, pure or mixed,
with a proof for each action: a teammate that requires it, or the reason why it is not needed.

Rows of the payoff table are the ego agent's actions, columns the teammate's. Files: a CSV table with or without names
in its first row and column, or JSON such as {"payoffs": [[2, 0], [0, 1]]} or {"ego": ..., "teammate": ...}, optionally
with "ego_actions" and "teammate_actions". Tables of more players are nested deeper, one dimension per player; JSON such
as {"players": [..., ..., ...], "ego_player": 0} has a table per player. Only the ego agent's payoffs count: they
determine its best responses, and teammates may be of any kind, not only those that act in their own interest.

Examples:
  coverset solve matrix --figure regions.png
  coverset solve payoffs.csv --json
  coverset solve weighted-reaching --diversity
  coverset solve three-players.json --teams independent
"""


@dataclass(frozen=True)
class Solve:
    """Command-line options."""

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """Game: matrix, reaching, weighted-reaching (their corner tables), rock-paper-scissors, matching-pennies, or the
    path of a CSV or JSON file."""
    teams: Teams = "joint"
    """With several teammates: joint teams may correlate their actions (always exact); independent teammates mix on
    their own (exact or with a lower and an upper bound)."""
    figure: Path | None = None
    """File for a figure (.png, .svg, .pdf) of a two-player game: the best-response regions (2 or 3 teammate actions) or
    the margins."""
    out: Path | None = None
    """Also write the solution as JSON to this file."""
    diversity: bool = False
    """Also find the alphas for which BRDiv and LIPO prefer the coverage set (small games of two players)."""
    json: bool = False
    """Print one JSON object on standard output and nothing else."""


def main(arguments: list[str]) -> int:
    """Parse the arguments and run the command."""
    return run(read_options(Solve, arguments, command="solve", description=DESCRIPTION))


def run(command: Solve) -> int:
    """Solve, write the requested files, print."""
    _check_paths(command)
    game = load(command.game)
    _check_players(command, game)
    with Console(stderr=True).status(f"Solving {game.shape[0]} x {' x '.join(map(str, game.team_shape))} actions"):
        solution = solve(game, teams=command.teams)
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
        print_json(answer)
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


def _check_players(command: Solve, game: Game) -> None:
    """Raise before solving if an option is only for games of two players."""
    if command.diversity:
        check_pairs(game)
    if command.figure is not None:
        from coverset.solver.drawing import check_drawable

        check_drawable(game)


def _describe_float32_difference(solution: Solution, played: tuple[int, ...] | None) -> str:
    """One sentence about a game whose coverage set differs in float32."""
    if played is None:
        return "Environments use float32, in which these payoffs overflow or leave the coverage set undecided."
    names = ", ".join(solution.game.ego_actions[action] for action in played)
    return f"Environments use float32, and with payoffs rounded to it other actions are needed: {names}."


def _show(solution: Solution, preferences: tuple[Preference, ...], console: Console) -> None:
    game = solution.game
    names = escape(", ".join(game.ego_actions[action] for action in solution.lower_bound)) or "none"
    count = f"{len(solution.members)} of {game.shape[0]} actions"
    proved = "are needed" if solution.exact else "are proved to be needed"
    against = "" if game.players == 2 else f" against {solution.teams} teams of {game.players - 1}"
    console.print(f"[bold]{escape(game.name)}[/bold]: {count} {proved}{against}: {names}", highlight=False)
    _show_members(solution, console)
    if solution.undecided:
        _show_undecided(solution, console)
    if solution.non_members:
        _show_non_members(solution, console)
    if preferences:
        _show_diversity(solution, preferences, console)


def _show_members(solution: Solution, console: Console) -> None:
    game = solution.game
    table = Table(title="minimum coverage set" if solution.exact else "lower bound", title_justify="left")
    caller = "a teammate that calls for it" if game.players == 2 else "a team that calls for it"
    for column in ("index", "action", caller, "margin"):
        table.add_column(column, justify="right" if column in ("index", "margin") else "left", overflow="fold")
    for member in solution.members:
        margin = "no rival" if member.margin is None else f"{float(member.margin):.6g}"
        mix = _describe_witness(game, member)
        table.add_row(str(member.action), escape(game.ego_actions[member.action]), escape(mix), margin)
    console.print(table)


def _show_non_members(solution: Solution, console: Console) -> None:
    table = Table(title="not needed", title_justify="left")
    for column in ("index", "action", "why"):
        table.add_column(column, justify="right" if column == "index" else "left", overflow="fold")
    for item in solution.non_members:
        table.add_row(str(item.action), escape(solution.game.ego_actions[item.action]), escape(item.reason))
    console.print(table)


def _describe_witness(game: Game, member: Member) -> str:
    """Format the mix that calls for a member; of independent teammates one mix each, separated by semicolons."""
    if not member.team:
        return _describe_shares(game.teammate_actions, member.witness)
    return "; ".join(_describe_shares(names, mix) for names, mix in zip(game.team_actions, member.team, strict=True))


def _describe_shares(names: tuple[str, ...], shares: tuple[Fraction, ...]) -> str:
    return describe_mix(names, {j: share for j, share in enumerate(shares) if share})


def _show_undecided(solution: Solution, console: Console) -> None:
    """Name the undecided actions and the upper bound, with what is known of each margin."""
    actions = solution.game.ego_actions
    table = Table(title="undecided", title_justify="left")
    for column in ("index", "action", "margin against independent teams"):
        table.add_column(column, justify="right" if column == "index" else "left", overflow="fold")
    for item in solution.undecided:
        margin = f"between {float(item.low):.6g} and {float(item.high):.6g}"
        table.add_row(str(item.action), escape(actions[item.action]), margin)
    console.print(table)
    names = escape(", ".join(actions[action] for action in solution.upper_bound))
    console.print(f"Upper bound, which covers every team: {names}.", highlight=False)


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
