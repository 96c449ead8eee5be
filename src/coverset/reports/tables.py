"""The numbers of a report as tidy tables: one row per observation, unformatted, ready for CSV."""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coverset.evaluation.statistics import (
    Interval,
    PairedDifference,
    bootstrap_interval,
    paired_difference,
    student_interval,
)
from coverset.reports.chapters import Chapter, MethodRuns
from coverset.reports.records import CONSTRAINTS, Content, read_multipliers


@dataclass(frozen=True)
class DataTable:
    """Named columns and rows of plain values; None means unknown."""

    name: str
    """File name without suffix."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def csv(self) -> str:
        """The table as CSV (RFC 4180); unknown values are empty."""
        buffer = io.StringIO()
        writer = csv.writer(buffer)
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return buffer.getvalue()


def make_table(chapter: Chapter, name: str, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> DataTable:
    """Make a table of a chapter; its file name starts with the chapter's slug."""
    return DataTable(f"{chapter.slug}-{name}", tuple(columns), tuple(rows))


def held_out_curve(rows: Iterable[Content]) -> dict[int, float]:
    """Mean return with held-out partners by environment steps, where it was measured."""
    return {row["env_steps"]: row["held_out_return"] for row in rows if row["held_out_return"] is not None}


def seed_intervals(curves: Mapping[int, Mapping[Any, float]]) -> dict[Any, Interval]:
    """Mean and Student interval over seeds at every x that all seeds share.

    Args:
      curves: for each seed, values by x.
    """
    if not curves:
        return {}
    shared = set.intersection(*(set(curve) for curve in curves.values()))
    return {place: student_interval([curve[place] for curve in curves.values()]) for place in sorted(shared)}


def training_curves(method: MethodRuns, learner: str) -> dict[int, dict[int, float]]:
    """For each seed, the return with held-out partners over agent training; seeds without measurements are left out."""
    curves = {seed: held_out_curve(agent.rows) for seed, agent in method.agents.get(learner, {}).items()}
    return {seed: curve for seed, curve in curves.items() if curve}


def adaptation_curves(method: MethodRuns, learner: str) -> dict[int, dict[int, float]]:
    """For each seed, the mean return over partners of the first, second, ... episode of a trial."""
    evaluations = method.evaluations.get(learner, {})
    return {seed: dict(enumerate(record["curve"], 1)) for seed, record in evaluations.items()}


def final_returns(method: MethodRuns, learner: str) -> dict[int, float]:
    """For each seed, the mean return over all held-out partners."""
    return {seed: record["mean_return"] for seed, record in method.evaluations.get(learner, {}).items()}


def compare_methods(first: MethodRuns, second: MethodRuns, learner: str) -> PairedDifference | None:
    """Paired difference, first minus second, over the seeds that both have; None if there are none."""
    ours, theirs = final_returns(first, learner), final_returns(second, learner)
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return None
    return paired_difference({seed: ours[seed] for seed in shared}, {seed: theirs[seed] for seed in shared})


def curve_tables(
    chapter: Chapter, name: str, place: str, curves: Mapping[tuple[str, str], Mapping[int, Mapping[Any, float]]]
) -> tuple[DataTable, DataTable]:
    """Make two tables of curves by method and learner: one of all seeds, one of means and intervals."""
    by_seed = [
        (method, learner, seed, x, value)
        for (method, learner), seeds in curves.items()
        for seed, curve in seeds.items()
        for x, value in curve.items()
    ]
    means = [
        (method, learner, x, *_interval_cells(interval), interval.n)
        for (method, learner), seeds in curves.items()
        for x, interval in seed_intervals(seeds).items()
    ]
    return (
        make_table(chapter, name, ("method", "learner", "seed", place, "return"), by_seed),
        make_table(chapter, f"{name}-mean", ("method", "learner", place, "mean", "low", "high", "seeds"), means),
    )


def _interval_cells(interval: Interval) -> tuple[float, float | None, float | None]:
    content = interval.to_json()
    return content["mean"], content["low"], content["high"]


def final_table(chapter: Chapter) -> DataTable:
    """Final mean return of every method and learner with both intervals over seeds."""
    columns = ("method", "learner", "seeds", "mean_return", "student_low", "student_high")
    columns += ("bootstrap_low", "bootstrap_high", "oracle_fraction", "oracle_exact")
    rows = []
    for learner in chapter.learners:
        for method in chapter.methods:
            if returns := final_returns(method, learner):
                student, bootstrap = student_interval(returns.values()), bootstrap_interval(returns.values())
                fraction, exact = _fraction(method.evaluations[learner].values())
                row = (
                    method.label,
                    learner,
                    student.n,
                    *_interval_cells(student),
                    *_interval_cells(bootstrap)[1:],
                    fraction,
                    exact,
                )
                rows.append(row)
    return make_table(chapter, "final-returns", columns, rows)


def final_by_seed_table(chapter: Chapter) -> DataTable:
    """Final mean return of every agent."""
    columns = ("method", "learner", "seed", "mean_return", "oracle_fraction", "oracle_partners", "oracle_exact")
    rows = [
        (method.label, learner, seed, *(record.get(name) for name in columns[3:]))
        for learner in chapter.learners
        for method in chapter.methods
        for seed, record in method.evaluations.get(learner, {}).items()
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
    columns = ("learner", "first", "second", "seeds", "difference", "student_low", "student_high")
    columns += ("bootstrap_low", "bootstrap_high")
    rows = []
    for learner in chapter.learners:
        for other in chapter.methods:
            if other is chapter.reference:
                continue
            if (found := compare_methods(chapter.reference, other, learner)) is not None:
                ends = (*_interval_cells(found.student), *_interval_cells(found.bootstrap)[1:])
                rows.append((learner, chapter.reference.label, other.label, found.student.n, *ends))
    return make_table(chapter, "differences", columns, rows)


def partner_table(chapter: Chapter) -> DataTable:
    """For every held-out partner, the return of each method's agents and of the oracle."""
    columns = ("learner", "partner", "method", "seeds", "mean_return", "low", "high", "oracle", "oracle_exact")
    columns += ("full_information", "oracle_fraction")
    rows = [
        (learner, partner, method.label, *_partner_cells([record["partners"][partner] for record in records.values()]))
        for learner in chapter.learners
        for partner in partner_names(chapter)
        for method in chapter.methods
        if (records := method.evaluations.get(learner, {}))
    ]
    return make_table(chapter, "partners", columns, rows)


def partner_names(chapter: Chapter) -> list[str]:
    """Held-out partners of the chapter, in the order of evaluation."""
    every = (record for m in chapter.methods for by_seed in m.evaluations.values() for record in by_seed.values())
    return list(next(every, {"partners": {}})["partners"])


def _partner_cells(cells: list[Content]) -> tuple[Any, ...]:
    interval = student_interval([cell["mean_return"] for cell in cells])
    first = cells[0]
    fractions = [cell["oracle_fraction"] for cell in cells if cell["oracle_fraction"] is not None]
    known = (first["oracle"], first["oracle_exact"], first["full_information"])
    return interval.n, *_interval_cells(interval), *known, float(np.mean(fractions)) if fractions else None


def coverage_table(chapter: Chapter) -> DataTable:
    """For every pair, the conventions of teammate and best response, and the coverage set member it holds."""
    rows = [
        (
            method.label,
            seed,
            pair + 1,
            _get_item(s["conventions"], pair),
            _get_item(s["best_response_conventions"], pair),
            covered,
        )
        for method in chapter.methods
        for seed, s in method.summaries().items()
        for pair, covered in enumerate(s["covers"])
    ]
    return make_table(chapter, "coverage", ("method", "seed", "pair", "teammate", "best_response", "covers"), rows)


def population_table(chapter: Chapter) -> DataTable:
    """For every population, the members found, the mean returns, and the training cost."""
    columns = ("method", "seed", "pairs", "found", "coverage_size", "self_play", "cross_play")
    columns += ("constraints_violated", "env_steps", "train_seconds")
    rows = []
    for method in chapter.methods:
        for seed, s in method.summaries().items():
            returns = np.array(s["cross_play"])
            apart = returns[~np.eye(*returns.shape, dtype=bool)]
            cross = float(apart.mean()) if apart.size else None
            found = (s["population_size"], s["coverage_found"], s["coverage_size"])
            cost = (s["constraints_violated"], s["env_steps"], s["train_seconds"])
            rows.append((method.label, seed, *found, float(np.diagonal(returns).mean()), cross, *cost))
    return make_table(chapter, "populations", columns, rows)


def cross_play_table(chapter: Chapter) -> DataTable:
    """Mean return of every pair of every seed."""
    rows = [
        (method.label, seed, i + 1, j + 1, value, s["cross_play_standard_error"][i][j])
        for method in chapter.methods
        for seed, s in method.summaries().items()
        for i, row in enumerate(s["cross_play"])
        for j, value in enumerate(row)
    ]
    columns = ("method", "seed", "best_response", "teammate", "mean_return", "standard_error")
    return make_table(chapter, "cross-play", columns, rows)


def seat_return_table(chapter: Chapter) -> DataTable:
    """Mean return of every seat in every pair, where seats have rewards of their own."""
    rows = [
        (method.label, seed, i + 1, j + 1, seat, value)
        for method in chapter.methods
        for seed, s in method.summaries().items()
        for i, row in enumerate(s.get("seat_returns") or ())
        for j, seats in enumerate(row)
        for seat, value in enumerate(seats)
    ]
    columns = ("method", "seed", "best_response", "teammate", "seat", "mean_return")
    return make_table(chapter, "returns-by-seat", columns, rows)


def team_table(chapter: Chapter) -> DataTable:
    """For every partner and mixed team, the mean return of the agents and of every seat, over seeds."""
    rows = []
    for learner in chapter.learners:
        for method in chapter.methods:
            records = [*method.evaluations.get(learner, {}).values()]
            for kind, field in (("whole", "partners"), ("mixed", "mixed_teams")):
                for team in records[0].get(field, {}) if records else ():
                    cells = [record[field][team] for record in records if team in record.get(field, {})]
                    interval = student_interval([cell["mean_return"] for cell in cells])
                    seats = [cell["seat_returns"] for cell in cells if cell.get("seat_returns") is not None]
                    by_seat = " ".join(f"{np.mean(values):.6g}" for values in zip(*seats, strict=False)) or None
                    rows.append((learner, method.label, kind, team, interval.n, *_interval_cells(interval), by_seat))
    columns = ("learner", "method", "kind", "team", "seeds", "mean_return", "low", "high", "returns_by_seat")
    return make_table(chapter, "teams", columns, rows)


def extreme_entry(constraints: Content | None, choose: Any) -> float | None:
    """The smallest or largest off-diagonal entry of both constraint matrices (`choose`: min or max)."""
    if constraints is None:
        return None
    known = [
        value
        for kind in CONSTRAINTS
        for i, row in enumerate(constraints[kind])
        for j, value in enumerate(row)
        if i != j and value is not None
    ]
    return choose(known) if known else None


def generation_table(chapter: Chapter) -> DataTable:
    """For every row of metrics, returns, coverage, the smallest gap and the largest multiplier."""
    columns = ("method", "seed", "env_steps", "self_play_return", "cross_play_return", "coverage_found")
    columns += ("smallest_gap", "largest_multiplier")
    rows = [
        (
            method.label,
            seed,
            *(row[name] for name in columns[2:6]),
            extreme_entry(row["gaps"], min),
            extreme_entry(read_multipliers(row), max),
        )
        for method in chapter.methods
        for seed, run in method.finished.items()
        for row in run.rows
    ]
    return make_table(chapter, "generation", columns, rows)


def constraint_table(chapter: Chapter, seed: int) -> DataTable:
    """Gap and multiplier of every constraint of one seed over training."""
    columns = ("method", "seed", "env_steps", "constraint", "pair", "other", "gap", "multiplier")
    rows = [
        (method.label, seed, row["env_steps"], kind, i + 1, j + 1, gaps[i][j], _multiplier(row, kind, i, j))
        for method in chapter.methods
        if seed in method.finished
        for row in method.finished[seed].rows
        for kind in CONSTRAINTS
        if (gaps := (row["gaps"] or {}).get(kind))
        for i, j in np.ndindex(len(gaps), len(gaps))
        if i != j
    ]
    return make_table(chapter, "constraints", columns, rows)


def _multiplier(row: Content, kind: str, i: int, j: int) -> float | None:
    multipliers = read_multipliers(row)
    return None if multipliers is None else multipliers[kind][i][j]


def certificate_table(chapter: Chapter) -> DataTable:
    """The exact result of every certified population."""
    columns = ("method", "seed", "constraints", "violated", "smallest_gap", "margin", "discount")
    columns += ("largest_regret_lower", "largest_regret_upper")
    rows = []
    for method in chapter.methods:
        for seed, c in method.certificates().items():
            regrets = [best["regret_blind"] for best in c["discounted"]["best_responses"]]
            verdict = (c["constraints"], c["constraints_violated"], c["smallest_gap"], c["margin"])
            worst = (max(bounds["lower"] for bounds in regrets), max(bounds["upper"] for bounds in regrets))
            rows.append((method.label, seed, *verdict, c["discounted"]["discount"], *worst))
    return make_table(chapter, "certificates", columns, rows)


def best_response_table(chapter: Chapter) -> DataTable:
    """The exact best-response value of every certified teammate, and the regret of its own best response."""
    columns = ("method", "seed", "pair", "teammate", "own", "observed", "blind_lower", "blind_upper")
    columns += ("regret_lower", "regret_upper")
    rows = [
        (
            *(method.label, seed, pair + 1, _get_item(c["conventions"], pair), best["own"], best["observed"]),
            *(best["blind"]["lower"], best["blind"]["upper"]),
            *(best["regret_blind"]["lower"], best["regret_blind"]["upper"]),
        )
        for method in chapter.methods
        for seed, c in method.certificates().items()
        for pair, best in enumerate(c["discounted"]["best_responses"])
    ]
    return make_table(chapter, "exact-best-responses", columns, rows)


def _get_item(items: list[str], index: int) -> str | None:
    return items[index] if index < len(items) else None
