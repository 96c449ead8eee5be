"""A whole report in order: the overview, a chapter per environment, the state of every run, the words used."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coverset.evaluation.statistics import student_interval
from coverset.reports import tables
from coverset.reports.agent_sections import adaptation_section, partner_section, robustness_section
from coverset.reports.blocks import Block, Grid, Picture, Points, Section, Words, pictures_of, tables_of
from coverset.reports.chapters import Chapter, Method, learner_name
from coverset.reports.findings import findings, unfinished_sentence
from coverset.reports.population_sections import (
    certificate_section,
    coverage_section,
    cross_play_section,
    diversity_section,
    training_section,
)
from coverset.reports.records import RunRecord, Unreadable, state
from coverset.reports.settings_section import settings_section
from coverset.reports.tables import Table
from coverset.reports.wording import UNKNOWN, counted, listed, number, span
from coverset.solver import Game, game_from_table, load, preferred_populations, solve
from coverset.solver.games import built_in_games

MOST_POPULATIONS = 20_000
"""Populations compared for Appendix B: a second's work."""
SECTIONS = (
    robustness_section,
    adaptation_section,
    partner_section,
    coverage_section,
    cross_play_section,
    training_section,
    certificate_section,
)
"""Of a chapter, in order; each gives None where the runs hold nothing for it."""


@dataclass(frozen=True)
class Part:
    """A top-level part of the page."""

    anchor: str
    title: str
    blocks: Sequence[Block]
    """Before the first section."""
    sections: Sequence[Section] = ()


@dataclass(frozen=True)
class Document:
    """Everything a report says, shows and stores."""

    title: str
    lead: str
    parts: Sequence[Part]

    def _blocks(self) -> list[Block]:
        inner = [block for part in self.parts for section in part.sections for block in section.blocks]
        return [block for part in self.parts for block in part.blocks] + inner

    def pictures(self) -> list[Picture]:
        """Every figure, by its name."""
        return list({p.name: p for block in self._blocks() for p in pictures_of(block)}.values())

    def tables(self) -> list[Table]:
        """Every table of data, by its name."""
        return list({table.name: table for block in self._blocks() for table in tables_of(block)}.values())


def make_document(
    title: str, chapters: Sequence[Chapter], runs: Sequence[RunRecord], unreadable: Sequence[Unreadable]
) -> Document:
    """Put a report together from records."""
    overview = Part("overview", "At a glance", [overview_grid(chapters)])
    parts = [overview, *map(_chapter_part, chapters), _runs_part(chapters, runs, unreadable), _words_part()]
    seeds = len({run.seed for run in runs})
    methods = listed(list(dict.fromkeys(method.label for chapter in chapters for method in chapter.methods)))
    lead = (
        f"{counted(len(chapters), 'environment')}, {counted(len(runs), 'run')} of teammate generation with "
        f"{counted(seeds, 'different seed')}: {methods}."
    )
    return Document(title, lead, parts)


def overview_grid(chapters: Sequence[Chapter]) -> Grid:
    """One line per environment and method: the main results."""
    rows, data = [], []
    for chapter in chapters:
        for method in chapter.methods:
            values = _overview(chapter, method)
            data.append((chapter.title, method.label, *values))
            seeds, mean_found, size, learner, mean, low, high, held, certified = values
            found = UNKNOWN if mean_found is None else f"{number(mean_found)} of {size}"
            earned = UNKNOWN if mean is None else f"{number(mean)} ({span(low, high)})"
            exact = f"{held} of {certified}" if certified else UNKNOWN
            agent = learner_name(learner) if learner else UNKNOWN
            rows.append((chapter.title, method.label, agent, f"{seeds} of {len(method.runs)}", found, earned, exact))
    columns = ("environment", "method", "agent", "seeds", "members found", "return with held-out partners")
    caption = (
        "Seeds: finished of all. Members found: of the coverage set, mean over seeds. Return: mean per episode over "
        "all held-out partners, with Student's 95% interval over seeds. Constraints: in how many of the populations "
        "that were solved exactly all of them hold."
    )
    names = ("environment", "method", "seeds", "members_found", "coverage_size", "learner", "mean_return")
    names += ("student_low", "student_high", "constraints_held", "certified")
    table = Table("overview", names, tuple(data))
    return Grid(caption, (*columns, "constraints hold"), rows, (table,), text_columns=3)


def _overview(chapter: Chapter, method: Method) -> tuple[Any, ...]:
    summaries = [s for s in method.summaries().values() if s["coverage_size"] is not None]
    found = float(np.mean([s["coverage_found"] or 0 for s in summaries])) if summaries else None
    learner = next((name for name in chapter.learners if tables.final_returns(method, name)), None)
    earned = student_interval(tables.final_returns(method, learner).values()).to_json() if learner else {}
    certificates = method.certificates().values()
    held = sum(certificate["constraints_violated"] == 0 for certificate in certificates)
    ends = (earned.get("mean"), earned.get("low"), earned.get("high"))
    return len(method.finished), found, chapter.coverage_size, learner, *ends, held, len(certificates)


def _chapter_part(chapter: Chapter) -> Part:
    sections = [section for make in SECTIONS if (section := make(chapter)) is not None]
    if (appendix := _appendix(chapter)) is not None:
        sections.append(appendix)
    sections.append(settings_section(chapter))
    told = findings(chapter)
    blocks: list[Block] = [Points(told)] if told else [Words("No run of this environment is finished yet.")]
    if sentence := unfinished_sentence(chapter):
        blocks.append(Words(sentence))
    if chapter.left_out:
        blocks.append(Points(chapter.left_out))
    blocks += [Words(sentence) for sentence in _missing(chapter)]
    return Part(chapter.slug, chapter.title, blocks, sections)


def _missing(chapter: Chapter) -> list[str]:
    """What further commands would add."""
    if not any(method.finished for method in chapter.methods):
        return []
    sentences = []
    if not chapter.learners:
        sentences.append("There are no finished agents yet: `coverset train` and `coverset evaluate` would add them.")
    elif not any(method.evaluations for method in chapter.methods):
        sentences.append("Its agents were not measured yet: `coverset evaluate` would add their returns.")
    return sentences


def _appendix(chapter: Chapter) -> Section | None:
    """Appendix B for games that are a small table of payoffs between conventions."""
    game = _game(chapter)
    if game is None:
        return None
    solution = solve(game)
    rows, columns = game.shape
    size = max(2, len(solution.coverage_set))
    if math.comb(rows * columns + size - 1, size) > MOST_POPULATIONS:
        return None
    return diversity_section(chapter, solution, preferred_populations(solution))


def _game(chapter: Chapter) -> Game | None:
    payoffs = chapter.methods[0].runs[0].config["env_parameters"].get("payoffs")
    if chapter.env not in built_in_games() or payoffs is None:
        return None
    try:
        game = game_from_table(payoffs, name=chapter.env)
    except ValueError:
        return None
    named = load(chapter.env)
    return named if named.ego == game.ego else game


def _runs_part(chapters: Sequence[Chapter], runs: Sequence[RunRecord], unreadable: Sequence[Unreadable]) -> Part:
    """Every run and agent with its state; those that are not finished first in words."""
    entries = [(run.path, run.config["env"], run.method, "", run.seed, state(run)) for run in runs]
    entries += [
        (agent.path, run.config["env"], run.method, agent.learner, agent.seed, state(agent))
        for run in runs
        for agent in run.agents
    ]
    entries += [(item.path, None, None, None, None, f"damaged: {item.problem}") for item in unreadable]
    entries.sort(key=lambda entry: entry[0])
    columns = ("path", "environment", "method", "learner", "seed", "state")
    data = Table("runs", columns, tuple(entries))
    rows = [tuple("" if cell is None else str(cell) for cell in entry) for entry in entries]
    open_ones = [row for row in rows if row[-1] != "finished"]
    blocks: list[Block] = []
    if open_ones:
        caption = "Only what they have finished is part of the numbers above."
        blocks += [Grid(caption, columns, open_ones, text_columns=6)]
    else:
        blocks.append(Words("All runs and agents that were found are finished and readable."))
    caption = "Paths are relative to the directory of the study."
    blocks.append(Grid(caption, columns, rows, (data,), text_columns=6, folded=f"All {len(rows)} runs and agents"))
    return Part("runs", "Runs", blocks)


WORDS = (
    "Teammate, best response: generation trains pairs of policies; a teammate is one the agent will train with, a best "
    "response the partner trained to do best with it.",
    "Self-play, cross-play: a best response with its own teammate, and with another pair's.",
    "Coverage set: policies that hold a best response to every possible teammate. A member is found if some pair's "
    "best response plays it and its teammate calls for it.",
    "Agent: the ad hoc agent trained with the generated teammates. RL² has a memory that lasts for a trial, a "
    "feed-forward agent has none, PLASTIC-Policy chooses among the best responses by a belief about its partner.",
    "Held-out partner: a hand-written partner that the agent never trains with.",
    "95% interval: where the mean over seeds of a repeated study would be expected. Student's is right for few seeds "
    "that scatter normally; the bootstrap's assumes no shape but is too narrow for few seeds.",
    "Constraint, margin, gap: a pair's self-play return must exceed its cross-play by the margin; the gap is by how "
    "much more it does.",
    "Multiplier: the weight by which L-BRDiv enforces one constraint.",
)


def _words_part() -> Part:
    return Part("words", "Words used here", [Points(WORDS)])
