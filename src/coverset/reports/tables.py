"""The numbers of a report as tidy tables: one row per observation, unformatted, ready for CSV."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from coverset.reports.chapters import Chapter
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
