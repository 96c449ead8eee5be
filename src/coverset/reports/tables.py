"""Every number of a report as tidy tables: a header, a row per observation, ready for CSV. No formatting here."""

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
from coverset.reports.chapters import Chapter, Method
from coverset.reports.records import Content

CONSTRAINTS = ("other_best_response", "other_teammate")
"""The two kinds, as the records name them."""


@dataclass(frozen=True)
class Table:
    """Named columns and rows of plain values; None is unknown."""

    name: str
    """Of its file, without ending."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def csv(self) -> str:
        """As RFC 4180 has it, unknown values empty."""
        buffer = io.StringIO()
        writer = csv.writer(buffer)
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return buffer.getvalue()


def tidy(chapter: Chapter, name: str, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Table:
    """A table of a chapter, whose file name begins with the chapter's."""
    return Table(f"{chapter.slug}-{name}", tuple(columns), tuple(rows))


def held_out_curve(rows: Iterable[Content]) -> dict[int, float]:
    """Mean return with held-out partners by steps of training, where it was measured."""
    return {row["env_steps"]: row["held_out_return"] for row in rows if row["held_out_return"] is not None}


def bands(curves: Mapping[int, Mapping[Any, float]]) -> dict[Any, Interval]:
    """Mean and Student interval over seeds at every point that all seeds have.

    Args:
      curves: by seed, values by their place on the horizontal axis.
    """
    if not curves:
        return {}
    shared = set.intersection(*(set(curve) for curve in curves.values()))
    return {place: student_interval([curve[place] for curve in curves.values()]) for place in sorted(shared)}


def training_curves(method: Method, learner: str) -> dict[int, dict[int, float]]:
    """By seed, the return with held-out partners over the agent's training; seeds that never measured are left out."""
    curves = {seed: held_out_curve(agent.rows) for seed, agent in method.agents.get(learner, {}).items()}
    return {seed: curve for seed, curve in curves.items() if curve}


def adaptation_curves(method: Method, learner: str) -> dict[int, dict[int, float]]:
    """By seed, the mean return over partners of the first, second, ... episode of a trial."""
    evaluations = method.evaluations.get(learner, {})
    return {seed: dict(enumerate(record["curve"], 1)) for seed, record in evaluations.items()}


def final_returns(method: Method, learner: str) -> dict[int, float]:
    """By seed, the mean return over all held-out partners."""
    return {seed: record["mean_return"] for seed, record in method.evaluations.get(learner, {}).items()}


def difference(first: Method, second: Method, learner: str) -> PairedDifference | None:
    """First minus second over the seeds that both have; None without any."""
    ours, theirs = final_returns(first, learner), final_returns(second, learner)
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return None
    return paired_difference({seed: ours[seed] for seed in shared}, {seed: theirs[seed] for seed in shared})


def curve_tables(
    chapter: Chapter, name: str, place: str, curves: Mapping[tuple[str, str], Mapping[int, Mapping[Any, float]]]
) -> tuple[Table, Table]:
    """Curves by method and learner: one table with every seed, one with means and intervals."""
    by_seed = [
        (method, learner, seed, x, value)
        for (method, learner), seeds in curves.items()
        for seed, curve in seeds.items()
        for x, value in curve.items()
    ]
    means = [
        (method, learner, x, *_ends(interval), interval.n)
        for (method, learner), seeds in curves.items()
        for x, interval in bands(seeds).items()
    ]
    return (
        tidy(chapter, name, ("method", "learner", "seed", place, "return"), by_seed),
        tidy(chapter, f"{name}-mean", ("method", "learner", place, "mean", "low", "high", "seeds"), means),
    )


def _ends(interval: Interval) -> tuple[float, float | None, float | None]:
    content = interval.to_json()
    return content["mean"], content["low"], content["high"]


def final_table(chapter: Chapter) -> Table:
    """Final mean return of every method and learner with both intervals over seeds."""
    columns = ("method", "learner", "seeds", "mean_return", "student_low", "student_high")
    columns += ("bootstrap_low", "bootstrap_high", "oracle_fraction", "oracle_exact")
    rows = []
    for learner in chapter.learners:
        for method in chapter.methods:
            if returns := final_returns(method, learner):
                student, bootstrap = student_interval(returns.values()), bootstrap_interval(returns.values())
                fraction, exact = _fraction(method.evaluations[learner].values())
                row = (method.label, learner, student.n, *_ends(student), *_ends(bootstrap)[1:], fraction, exact)
                rows.append(row)
    return tidy(chapter, "final-returns", columns, rows)


def final_by_seed_table(chapter: Chapter) -> Table:
    """Final mean return of every agent."""
    columns = ("method", "learner", "seed", "mean_return", "oracle_fraction", "oracle_partners", "oracle_exact")
    rows = [
        (method.label, learner, seed, *(record.get(name) for name in columns[3:]))
        for learner in chapter.learners
        for method in chapter.methods
        for seed, record in method.evaluations.get(learner, {}).items()
    ]
    return tidy(chapter, "final-returns-by-seed", columns, rows)


def _fraction(records: Iterable[Content]) -> tuple[float | None, bool | None]:
    """Mean fraction of the oracle over seeds, and whether no oracle in it is but a bound."""
    known = [record for record in records if record["oracle_fraction"] is not None]
    if not known:
        return None, None
    exact = all(record.get("oracle_exact") is True for record in known)
    return float(np.mean([record["oracle_fraction"] for record in known])), exact


def difference_table(chapter: Chapter) -> Table:
    """The reference method minus each other one, paired by seed."""
    columns = ("learner", "first", "second", "seeds", "difference", "student_low", "student_high")
    columns += ("bootstrap_low", "bootstrap_high")
    rows = []
    for learner in chapter.learners:
        for other in chapter.methods:
            if other is chapter.reference:
                continue
            if (found := difference(chapter.reference, other, learner)) is not None:
                ends = (*_ends(found.student), *_ends(found.bootstrap)[1:])
                rows.append((learner, chapter.reference.label, other.label, found.student.n, *ends))
    return tidy(chapter, "differences", columns, rows)


def partner_table(chapter: Chapter) -> Table:
    """Every held-out partner: what each method's agents earn with it, and what could be earned."""
    columns = ("learner", "partner", "method", "seeds", "mean_return", "low", "high", "oracle", "oracle_exact")
    columns += ("full_information", "oracle_fraction")
    rows = [
        (learner, partner, method.label, *_partner_cells([record["partners"][partner] for record in records.values()]))
        for learner in chapter.learners
        for partner in partner_names(chapter)
        for method in chapter.methods
        if (records := method.evaluations.get(learner, {}))
    ]
    return tidy(chapter, "partners", columns, rows)


def partner_names(chapter: Chapter) -> list[str]:
    """Held-out partners of the chapter, in the order in which they were met."""
    every = (record for m in chapter.methods for by_seed in m.evaluations.values() for record in by_seed.values())
    return list(next(every, {"partners": {}})["partners"])


def _partner_cells(cells: list[Content]) -> tuple[Any, ...]:
    interval = student_interval([cell["mean_return"] for cell in cells])
    first = cells[0]
    fractions = [cell["oracle_fraction"] for cell in cells if cell["oracle_fraction"] is not None]
    known = (first["oracle"], first["oracle_exact"], first["full_information"])
    return interval.n, *_ends(interval), *known, float(np.mean(fractions)) if fractions else None


def coverage_table(chapter: Chapter) -> Table:
    """Every pair: what its teammate and best response do, and the member of the coverage set that it holds."""
    rows = [
        (method.label, seed, pair + 1, _at(s["conventions"], pair), _at(s["best_response_conventions"], pair), covered)
        for method in chapter.methods
        for seed, s in method.summaries().items()
        for pair, covered in enumerate(s["covers"])
    ]
    return tidy(chapter, "coverage", ("method", "seed", "pair", "teammate", "best_response", "covers"), rows)


def population_table(chapter: Chapter) -> Table:
    """Every seed's population: what it found and how well its pairs play."""
    columns = ("method", "seed", "pairs", "found", "coverage_size", "self_play", "cross_play")
    columns += ("constraints_violated", "env_steps", "train_seconds")
    rows = []
    for method in chapter.methods:
        for seed, s in method.summaries().items():
            returns = np.array(s["cross_play"])
            apart = returns[~np.eye(len(returns), dtype=bool)]
            cross = float(apart.mean()) if apart.size else None
            found = (s["population_size"], s["coverage_found"], s["coverage_size"])
            cost = (s["constraints_violated"], s["env_steps"], s["train_seconds"])
            rows.append((method.label, seed, *found, float(np.diagonal(returns).mean()), cross, *cost))
    return tidy(chapter, "populations", columns, rows)


def cross_play_table(chapter: Chapter) -> Table:
    """Mean return of every pair of every seed."""
    rows = [
        (method.label, seed, i + 1, j + 1, value, s["cross_play_standard_error"][i][j])
        for method in chapter.methods
        for seed, s in method.summaries().items()
        for i, row in enumerate(s["cross_play"])
        for j, value in enumerate(row)
    ]
    columns = ("method", "seed", "best_response", "teammate", "mean_return", "standard_error")
    return tidy(chapter, "cross-play", columns, rows)


def extreme(constraints: Content | None, choose: Any) -> float | None:
    """The smallest or largest entry of both matrices, their diagonals left out."""
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


def generation_table(chapter: Chapter) -> Table:
    """Training of every population over time, its tightest constraint and its largest multiplier."""
    columns = ("method", "seed", "env_steps", "self_play_return", "cross_play_return", "coverage_found")
    columns += ("smallest_gap", "largest_multiplier")
    rows = [
        (
            method.label,
            seed,
            *(row[name] for name in columns[2:6]),
            extreme(row["gaps"], min),
            extreme(row.get("multipliers"), max),
        )
        for method in chapter.methods
        for seed, run in method.finished.items()
        for row in run.rows
    ]
    return tidy(chapter, "generation", columns, rows)


def constraint_table(chapter: Chapter, seed: int) -> Table:
    """Gap and multiplier of every constraint of one seed over training."""
    columns = ("method", "seed", "env_steps", "constraint", "pair", "other", "gap", "multiplier")
    rows = [
        (method.label, seed, row["env_steps"], kind, i + 1, j + 1, gaps[i][j], _multiplier(row, kind, i, j))
        for method in chapter.methods
        if seed in method.finished
        for row in method.finished[seed].rows
        for kind in CONSTRAINTS
        if (gaps := row["gaps"][kind])
        for i, j in np.ndindex(len(gaps), len(gaps))
        if i != j
    ]
    return tidy(chapter, "constraints", columns, rows)


def _multiplier(row: Content, kind: str, i: int, j: int) -> float | None:
    multipliers = row.get("multipliers")
    return None if multipliers is None else multipliers[kind][i][j]


def certificate_table(chapter: Chapter) -> Table:
    """The exact verdict on every certified population."""
    columns = ("method", "seed", "constraints", "violated", "smallest_gap", "margin", "discount")
    columns += ("largest_regret_lower", "largest_regret_upper")
    rows = []
    for method in chapter.methods:
        for seed, c in method.certificates().items():
            regrets = [best["regret_blind"] for best in c["discounted"]["best_responses"]]
            verdict = (c["constraints"], c["constraints_violated"], c["smallest_gap"], c["margin"])
            worst = (max(bounds["lower"] for bounds in regrets), max(bounds["upper"] for bounds in regrets))
            rows.append((method.label, seed, *verdict, c["discounted"]["discount"], *worst))
    return tidy(chapter, "certificates", columns, rows)


def best_response_table(chapter: Chapter) -> Table:
    """The exact value of a best response to every certified teammate, and the regret of its own partner."""
    columns = ("method", "seed", "pair", "teammate", "own", "observed", "blind_lower", "blind_upper")
    columns += ("regret_lower", "regret_upper")
    rows = [
        (
            *(method.label, seed, pair + 1, _at(c["conventions"], pair), best["own"], best["observed"]),
            *(best["blind"]["lower"], best["blind"]["upper"]),
            *(best["regret_blind"]["lower"], best["regret_blind"]["upper"]),
        )
        for method in chapter.methods
        for seed, c in method.certificates().items()
        for pair, best in enumerate(c["discounted"]["best_responses"])
    ]
    return tidy(chapter, "exact-best-responses", columns, rows)


def _at(items: list[str], index: int) -> str | None:
    return items[index] if index < len(items) else None
