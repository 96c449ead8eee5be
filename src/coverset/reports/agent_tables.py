"""The numbers of ad hoc agents as tidy tables: curves, final returns, differences, returns by partner and team.

Agents are named by the labels of their groups (`agent_groups`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from coverset.evaluation.seed_averages import cells_by_title
from coverset.evaluation.statistics import (
    Interval,
    PairedDifference,
    bootstrap_interval,
    paired_difference,
    student_interval,
)
from coverset.reports.chapters import Chapter, MethodRuns
from coverset.reports.records import Content
from coverset.reports.tables import DataTable, make_table

Curves = Mapping[int, Mapping[Any, float]]
"""For each seed, values by x."""


def held_out_curve(rows: Iterable[Content]) -> dict[int, float]:
    """Mean return with held-out partners by environment steps, where it was measured."""
    return {row["env_steps"]: row["held_out_return"] for row in rows if row["held_out_return"] is not None}


def seed_intervals(curves: Curves) -> dict[Any, Interval]:
    """Mean and Student interval over seeds at every x that all seeds share."""
    return {place: student_interval(values) for place, values in shared_points(curves).items()}


def shared_points(curves: Curves) -> dict[Any, list[float]]:
    """The values of all seeds at every x that they share, in order."""
    if not curves:
        return {}
    shared = set.intersection(*(set(curve) for curve in curves.values()))
    return {place: [curve[place] for curve in curves.values()] for place in sorted(shared)}


def training_curves(method: MethodRuns, label: str) -> dict[int, dict[int, float]]:
    """For each seed, the return with held-out partners over agent training; seeds without measurements are left out."""
    curves = {seed: held_out_curve(agent.rows) for seed, agent in method.agents.get(label, {}).items()}
    return {seed: curve for seed, curve in curves.items() if curve}


def adaptation_curves(method: MethodRuns, label: str) -> dict[int, dict[int, float]]:
    """For each seed, the mean return over partners of the first, second, ... episode of a trial."""
    evaluations = method.evaluations.get(label, {})
    return {seed: dict(enumerate(record["curve"], 1)) for seed, record in evaluations.items()}


def final_returns(method: MethodRuns, label: str) -> dict[int, float]:
    """For each seed, the mean return over all held-out partners."""
    return {seed: record["mean_return"] for seed, record in method.evaluations.get(label, {}).items()}


def compare_methods(first: MethodRuns, second: MethodRuns, label: str) -> PairedDifference | None:
    """Paired difference, first minus second, over the seeds that both have; None if there are none."""
    ours, theirs = final_returns(first, label), final_returns(second, label)
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return None
    return paired_difference({seed: ours[seed] for seed in shared}, {seed: theirs[seed] for seed in shared})


def paired_values(first: MethodRuns, second: MethodRuns, label: str) -> list[float]:
    """First minus second in every seed that both have."""
    ours, theirs = final_returns(first, label), final_returns(second, label)
    return [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]


def curve_tables(
    chapter: Chapter, name: str, place: str, curves: Mapping[tuple[str, str], Curves]
) -> tuple[DataTable, DataTable]:
    """Make two tables of curves by method and agent: one of all seeds, one of means and intervals."""
    by_seed = [
        (method, label, seed, x, value)
        for (method, label), seeds in curves.items()
        for seed, curve in seeds.items()
        for x, value in curve.items()
    ]
    means = [
        (method, label, x, *_interval_cells(interval), interval.n)
        for (method, label), seeds in curves.items()
        for x, interval in seed_intervals(seeds).items()
    ]
    return (
        make_table(chapter, name, ("method", "agent", "seed", place, "return"), by_seed),
        make_table(chapter, f"{name}-mean", ("method", "agent", place, "mean", "low", "high", "seeds"), means),
    )


def _interval_cells(interval: Interval) -> tuple[float, float | None, float | None]:
    content = interval.to_json()
    return content["mean"], content["low"], content["high"]


def _extremes(values: Collection[float]) -> tuple[float, float]:
    return min(values), max(values)


def final_table(chapter: Chapter) -> DataTable:
    """Final mean return of every method and agent with both intervals over seeds."""
    columns = ("method", "agent", "seeds", "mean_return", "student_low", "student_high")
    columns += ("bootstrap_low", "bootstrap_high", "oracle_fraction", "oracle_exact", "lowest_seed", "highest_seed")
    rows = []
    for agents in chapter.agents:
        for method in chapter.methods:
            if returns := final_returns(method, agents.label):
                student, bootstrap = student_interval(returns.values()), bootstrap_interval(returns.values())
                row = (
                    method.label,
                    agents.label,
                    student.n,
                    *_interval_cells(student),
                    *_interval_cells(bootstrap)[1:],
                    *_fraction(method.evaluations[agents.label].values()),
                    *_extremes(returns.values()),
                )
                rows.append(row)
    return make_table(chapter, "final-returns", columns, rows)


def final_by_seed_table(chapter: Chapter) -> DataTable:
    """Final mean return of every agent."""
    columns = ("method", "agent", "learner", "seat", "seed", "mean_return", "oracle_fraction", "oracle_partners")
    columns += ("oracle_exact",)
    rows = [
        (method.label, agents.label, agents.learner, agents.seat, seed, *(record.get(name) for name in columns[5:]))
        for agents in chapter.agents
        for method in chapter.methods
        for seed, record in method.evaluations.get(agents.label, {}).items()
    ]
    return make_table(chapter, "final-returns-by-seed", columns, rows)


def _fraction(records: Iterable[Content]) -> tuple[float | None, bool | None]:
    """Mean fraction of the oracle return over seeds, and whether all oracles are exact."""
    known = [record for record in records if record["oracle_fraction"] is not None]
    if not known:
        return None, None
    exact = all(record.get("oracle_exact") is True for record in known)
    return float(np.mean([record["oracle_fraction"] for record in known])), exact


def difference_table(chapter: Chapter) -> DataTable:
    """The reference method minus each other method, paired by seed."""
    columns = ("agent", "first", "second", "seeds", "difference", "student_low", "student_high")
    columns += ("bootstrap_low", "bootstrap_high", "lowest_seed", "highest_seed")
    rows = []
    for agents in chapter.agents:
        for other in chapter.methods:
            if other is chapter.reference:
                continue
            if (found := compare_methods(chapter.reference, other, agents.label)) is not None:
                ends = (*_interval_cells(found.student), *_interval_cells(found.bootstrap)[1:])
                extremes = _extremes(paired_values(chapter.reference, other, agents.label))
                rows.append((agents.label, chapter.reference.label, other.label, found.student.n, *ends, *extremes))
    return make_table(chapter, "differences", columns, rows)


PARTNER_COLUMNS = ("agent", "partner", "method", "seeds", "mean_return", "low", "high", "oracle", "oracle_exact")
PARTNER_COLUMNS += ("full_information", "oracle_fraction", "lowest_seed", "highest_seed", "reference")


def partner_table(chapter: Chapter) -> DataTable:
    """For every held-out partner, the return of each method's agents, of the oracle, and the reference if there is one.

    Where no oracle is known, `reference` is what the best responses of the partner's own seed earn with it.
    """
    rows = [
        (agents.label, partner, method.label, *_partner_cells(cells))
        for agents in chapter.agents
        for partner in partner_names(chapter, agents.label)
        for method in chapter.methods
        if (cells := _titled_cells(method, agents.label, "partners").get(partner))
    ]
    return make_table(chapter, "partners", PARTNER_COLUMNS, rows)


def partner_names(chapter: Chapter, label: str) -> list[str]:
    """Titles of the held-out partners of a group of agents, in the order of evaluation."""
    return [*dict.fromkeys(title for m in chapter.methods for title in _titled_cells(m, label, "partners"))]


def _titled_cells(method: MethodRuns, label: str, field: str) -> dict[str, list[Mapping[str, Any]]]:
    """The cells of all seeds whose agents meet a partner or a mixed team, by its title."""
    return cells_by_title(method.evaluations.get(label, {}).values(), field)


def _partner_cells(cells: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    returns = [cell["mean_return"] for cell in cells]
    interval = student_interval(returns)
    first = cells[0]
    fractions = [cell["oracle_fraction"] for cell in cells if cell["oracle_fraction"] is not None]
    references = [cell["reference"] for cell in cells if cell.get("reference") is not None]
    known = (first["oracle"], first["oracle_exact"], first["full_information"])
    means = (float(np.mean(found)) if found else None for found in (fractions, references))
    fraction, reference = means
    return interval.n, *_interval_cells(interval), *known, fraction, *_extremes(returns), reference


def team_table(chapter: Chapter) -> DataTable:
    """For every partner and mixed team, the mean return of the agents and of every seat, over seeds."""
    rows = []
    for agents in chapter.agents:
        for method in chapter.methods:
            for kind, field in (("whole", "partners"), ("mixed", "mixed_teams")):
                for team, cells in _titled_cells(method, agents.label, field).items():
                    rows.append((agents.label, method.label, kind, team, *_team_cells(cells)))
    columns = ("agent", "method", "kind", "team", "seeds", "mean_return", "low", "high", "returns_by_seat")
    return make_table(chapter, "teams", (*columns, "lowest_seed", "highest_seed"), rows)


def _team_cells(cells: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    returns = [cell["mean_return"] for cell in cells]
    interval = student_interval(returns)
    seats = [cell["seat_returns"] for cell in cells if cell.get("seat_returns") is not None]
    by_seat = " ".join(f"{np.mean(values):.6g}" for values in zip(*seats, strict=False)) or None
    return interval.n, *_interval_cells(interval), by_seat, *_extremes(returns)
