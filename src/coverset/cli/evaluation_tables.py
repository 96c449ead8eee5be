"""What `coverset evaluate` prints: a line for every partner of one agent, or for every agent if there are several."""

from collections.abc import Mapping, Sequence
from typing import Any

from coverset.cli.shared import print_text
from coverset.cli.tables import print_rows
from coverset.evaluation.bounds_wording import describe_bounds
from coverset.evaluation.seed_averages import PartnerAverage, average_over_seeds, cells_by_title, describe_spread
from coverset.evaluation.statistics import paired_difference

MOST_LETTERS = 12
"""Longest name of an agent in the heading of a column."""

HEADINGS = {"oracle": "oracle", "reference": "ref."}
"""Of the columns with what a return is compared with."""

Record = dict[str, Any]


def show_evaluation(records: Sequence[Record], *, details: bool = False) -> None:
    """Print the records of one or several agents.

    Args:
      records: of all agents and seeds, as `coverset.evaluate` returns them.
      details: whether to print the partners of every agent and the results of every seed too.
    """
    by_agent: dict[str, list[Record]] = {}
    for record in records:
        by_agent.setdefault(record["agent"], []).append(record)
    if len(by_agent) > 1:
        _show_agents(by_agent)
    for agent, found in by_agent.items():
        if len(by_agent) == 1 or details:
            _show_partners(agent, found, details=details)
    if len(by_agent) > 1 and not details:
        print("Returns with each partner: --details, or --agents NAME for one agent.")
    first, listed = records[0], len(by_agent) == 1 or details
    if first["mixed_teams"] and listed:
        print("Whole teams of one partner come first, with their mean; teams of several partners stand below it.")
    if listed and any(cell["reference"] is not None for cell in first["partners"].values()):
        print("ref.: the most that best responses of the partner's own seed earn with it.")
    if listed:
        _explain_partners(first)
    for agent, found in by_agent.items():
        if (sentence := describe_bounds(found)) is not None:
            print_text(f"{agent}: {sentence}")
    if unit := first.get("return_unit"):
        mean = sum(record["mean_return"] for record in records) / len(records) / unit["size"]
        print(f"The mean return is {mean:.3g} {unit['name']}.")
    if (seats := _describe_seats(records)) is not None:
        print(seats)


def _show_agents(by_agent: dict[str, list[Record]]) -> None:
    first, *_ = by_agent.values()
    kind = _measure(first)
    if kind and all(average_over_seeds(records).fraction(kind) is None for records in by_agent.values()):
        kind = None  # shares of returns that may be negative say nothing
    columns = ["agent", "seat", "mean return", "95% interval", *([f"of {HEADINGS[kind]}"] if kind else [])]
    rows = []
    for agent, records in by_agent.items():
        average = average_over_seeds(records)
        fraction = [_format(average.fraction(kind), ".2f")] if kind else []
        spread = describe_spread([record["mean_return"] for record in records])
        seat = str(records[0]["seat"])
        rows.append((agent, seat, f"{average.interval.mean:.3g}", spread, *fraction, _difference(records, first)))
    minus = _shorten_agent(first[0]["agent"])
    title = f"{first[0]['game']}: agents with held-out partners"
    print_rows(title, [*columns, f"minus {minus}"], rows, keep_end=True)


def _shorten_agent(name: str) -> str:
    """A name that leaves room for the columns beside it."""
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"


def _difference(records: list[Record], first: list[Record]) -> str:
    """How much more an agent earns than the first one, over the seeds of both."""
    own, other = ({record["seed"]: record["mean_return"] for record in some} for some in (records, first))
    seeds = own.keys() & other.keys()
    if records is first or not seeds:
        return ""
    found = paired_difference({n: own[n] for n in seeds}, {n: other[n] for n in seeds}).student
    reach = f" ± {found.half_width:.2g}" if found.n > 2 else ""
    return f"{found.mean:+.3g}{reach}"


def _show_partners(agent: str, records: list[Record], *, details: bool) -> None:
    """Print a line for every partner, averaged over the seeds whose agents meet it."""
    kind = _measure(records)
    measure = [HEADINGS[kind], "share"] if kind else []
    seat = f", seat {records[0]['seat']}" if records[0]["seat"] else ""
    title = f"{records[0]['game']}: {agent}{seat}, trained with {records[0]['method']} teammates"
    rows = []
    for name, cells in _rows(records).items():
        average = average_over_seeds(cells)
        spread = _describe_cell(cells, len(records))
        known = [_format_measure(average, kind), _format(average.fraction(kind), ".2f")] if kind else []
        episodes = [f"{average.curve[episode]:.3g}" for episode in (0, -1)]
        rows.append((name, f"{average.interval.mean:.3g}", spread, *known, *episodes))
    spread = "both seeds" if len(records) == 2 else "95% interval"
    print_rows(title, ["partner", "return", spread, *measure, "first", "last"], rows, keep_end=True)
    print(f"first, last: mean return in episodes 1 and {records[0]['episodes']} with a partner.")
    if details:
        _show_seeds(records)


def _describe_cell(cells: Sequence[Mapping[str, Any]], seeds: int) -> str:
    """How far the seeds differ that meet a partner; of two, both, which the heading says."""
    values = [cell["mean_return"] for cell in cells]
    if seeds == 2:
        return f"{min(values):.3g}, {max(values):.3g}" if len(values) == 2 else ""
    return describe_spread(values)


def _rows(records: list[Record]) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Cells by the title of the partner; then the mean over partners, and the mixed teams."""
    return {**cells_by_title(records, "partners"), "mean": records, **cells_by_title(records, "mixed_teams")}


def _show_seeds(records: list[Record]) -> None:
    for record in records:
        cells = record["partners"].values()
        met = ", ".join(f"{cell['title']} {cell['mean_return']:.3g}" for cell in cells)
        print_text(f"seed {record['seed']}: {met}")


def _measure(records: list[Record]) -> str | None:
    """What returns are compared with: oracles where one is known, or else references."""
    cells = [cell for record in records for cell in record["partners"].values()]
    return next((kind for kind in ("oracle", "reference") if any(cell[kind] is not None for cell in cells)), None)


def _format_measure(average: PartnerAverage, kind: str) -> str:
    value = average.oracle if kind == "oracle" else average.reference
    bound = "" if kind == "reference" or average.oracle_exact else " (bound)"
    return "" if value is None else f"{value:.3g}{bound}"


def _format(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _explain_partners(record: Record) -> None:
    """Say what each heuristic does, in a line each."""
    for name, cell in record["partners"].items():
        if cell.get("description"):
            print_text(f"{name}: {cell['description']}")


def _describe_seats(records: Sequence[Record]) -> str | None:
    """The mean return of every seat over seeds and partners, where seats have rewards of their own."""
    every = [cell["seat_returns"] for record in records for cell in record["partners"].values()]
    if every[0] is None:
        return None
    means = [sum(values) / len(values) for values in zip(*every, strict=True)]
    words = ", ".join(f"{mean:.3g} in seat {seat}" for seat, mean in enumerate(means))
    return f"Mean return by seat: {words}; the agent sits in seat {records[0]['seat']}."
