"""The structure of a report: overview, one chapter per environment, the state of every run, glossary."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coverset.evaluation.statistics import student_interval
from coverset.reports import agent_tables
from coverset.reports.agent_groups import AgentGroup, learner_title
from coverset.reports.agent_sections import adaptation_section, partner_section, robustness_section
from coverset.reports.blocks import Block, BulletList, HtmlTable, Paragraph, Picture, Section, pictures_of, tables_of
from coverset.reports.bounds_section import bounds_section
from coverset.reports.chapters import Chapter, MethodRuns
from coverset.reports.findings import describe_findings, describe_unfinished
from coverset.reports.inspection_section import inspection_section
from coverset.reports.paper_figure import paper_picture
from coverset.reports.population_sections import (
    certificate_section,
    coverage_section,
    cross_play_section,
    diversity_section,
    training_section,
)
from coverset.reports.records import RunRecord, UnreadableRun, describe_state
from coverset.reports.settings_section import settings_section
from coverset.reports.tables import DataTable
from coverset.reports.uncovered_sections import uncovered_section
from coverset.reports.wording import UNKNOWN, format_count, format_interval, format_number, join_words
from coverset.runs.game_names import game_title
from coverset.solver import Game, game_from_table, load, preferred_populations, solve
from coverset.solver.games import built_in_games

MOST_POPULATIONS = 20_000
"""Largest number of populations to compare for Appendix B, which takes about a second."""
SECTIONS = (
    robustness_section,
    bounds_section,
    adaptation_section,
    partner_section,
    coverage_section,
    uncovered_section,
    cross_play_section,
    training_section,
    certificate_section,
    inspection_section,
)
"""Sections of a chapter, in order; each function returns None if the runs have no data for it."""


@dataclass(frozen=True)
class Part:
    """A top-level part of the page."""

    anchor: str
    title: str
    blocks: Sequence[Block]
    """Content before the first section."""
    sections: Sequence[Section] = ()


@dataclass(frozen=True)
class Document:
    """The text, figures and data of a report."""

    title: str
    lead: str
    parts: Sequence[Part]

    def _blocks(self) -> list[Block]:
        inner = [block for part in self.parts for section in part.sections for block in section.blocks]
        return [block for part in self.parts for block in part.blocks] + inner

    def pictures(self) -> list[Picture]:
        """Every figure once."""
        return list({p.name: p for block in self._blocks() for p in pictures_of(block)}.values())

    def tables(self) -> list[DataTable]:
        """Every data table once."""
        return list({table.name: table for block in self._blocks() for table in tables_of(block)}.values())


def make_document(
    title: str, chapters: Sequence[Chapter], runs: Sequence[RunRecord], unreadable: Sequence[UnreadableRun]
) -> Document:
    """Assemble a report from records."""
    overview = Part("overview", "Overview", [overview_table(chapters)])
    parts = [overview, *map(_chapter_part, chapters), _runs_part(chapters, runs, unreadable), _glossary_part()]
    seeds = len({run.seed for run in runs})
    methods = join_words(list(dict.fromkeys(method.label for chapter in chapters for method in chapter.methods)))
    lead = (
        f"{format_count(len(chapters), 'environment')}, {format_count(len(runs), 'run')} of teammate generation with "
        f"{format_count(seeds, 'different seed')}: {methods}."
    )
    return Document(title, lead, parts)


def overview_table(chapters: Sequence[Chapter]) -> HtmlTable:
    """The main results: one row per environment, method and group of agents."""
    rows, data = [], []
    for chapter in chapters:
        for method in chapter.methods:
            trained = [agents for agents in chapter.agents if method.agents.get(agents.label)]
            for agents in trained or [None]:
                values = _overview_values(chapter, method, agents)
                data.append((chapter.title, method.label, *values))
                rows.append((chapter.title, method.label, *_overview_cells(method, agents, values)))
    columns = ("environment", "method", "agent", "seeds", "members found", "return with held-out partners")
    caption = (
        "Seeds: finished of all. Members found: members of the coverage set or, where that is unknown, kinds of "
        "teammates, mean over seeds. Return: mean per episode over all held-out partners, with Student's 95% interval "
        "over three seeds or more. Constraints hold: number of certified populations in which all constraints hold "
        "exactly."
    )
    names = ("environment", "method", "seeds", "members_found", "coverage_size", "agent", "mean_return")
    names += ("student_low", "student_high", "constraints_held", "certified")
    table = DataTable("overview", names, tuple(data))
    return HtmlTable(caption, (*columns, "constraints hold"), rows, (table,), text_columns=3)


def _overview_values(chapter: Chapter, method: MethodRuns, agents: AgentGroup | None) -> tuple[Any, ...]:
    counts = [s["coverage_found"] for s in method.summaries().values() if s["coverage_found"] is not None]
    found = float(np.mean(counts)) if counts else None
    returns = agent_tables.final_returns(method, agents.label) if agents else {}
    earned = student_interval(returns.values()).to_json() if returns else {}
    certificates = method.certificates().values()
    held = sum(certificate["constraints_violated"] == 0 for certificate in certificates)
    ends = (earned.get("mean"), earned.get("low"), earned.get("high"))
    label = agents.label if agents else None
    return len(method.finished), found, chapter.coverage_size, label, *ends, held, len(certificates)


def _overview_cells(method: MethodRuns, agents: AgentGroup | None, values: tuple[Any, ...]) -> tuple[str, ...]:
    seeds, mean_found, size, label, mean, low, high, held, certified = values
    of_all = "kinds" if size is None else f"of {size}"
    found = UNKNOWN if mean_found is None else f"{format_number(mean_found)} {of_all}"
    returns = [*agent_tables.final_returns(method, label).values()] if label else []
    earned = UNKNOWN if mean is None else f"{format_number(mean)} ({format_interval(low, high, returns)})"
    exact = f"{held} of {certified}" if certified else UNKNOWN
    return agents.title if agents else UNKNOWN, f"{seeds} of {len(method.runs)}", found, earned, exact


def _chapter_part(chapter: Chapter) -> Part:
    sections = [section for make in SECTIONS if (section := make(chapter)) is not None]
    if (appendix := _appendix_section(chapter)) is not None:
        sections.append(appendix)
    sections.append(settings_section(chapter))
    finished = any(method.finished for method in chapter.methods)
    unfinished: list[Block] = [Paragraph("No run of this environment is finished yet.")]
    blocks: list[Block] = [BulletList(describe_findings(chapter))] if finished else unfinished
    if (picture := paper_picture(chapter)) is not None:
        blocks.append(picture)
    if sentence := describe_unfinished(chapter):
        blocks.append(Paragraph(sentence))
    if chapter.left_out:
        blocks.append(BulletList(chapter.left_out))
    blocks += [Paragraph(sentence) for sentence in _suggest_commands(chapter)]
    return Part(chapter.slug, chapter.title, blocks, sections)


def _suggest_commands(chapter: Chapter) -> list[str]:
    """Name the commands that would add missing results."""
    if not any(method.finished for method in chapter.methods):
        return []
    sentences = []
    if not chapter.agents:
        sentences.append("There are no finished agents yet: run `coverset train` and `coverset evaluate` to add them.")
    elif not any(method.evaluations for method in chapter.methods):
        sentences.append("The agents are not evaluated yet: run `coverset evaluate` to add their returns.")
    return sentences


def _appendix_section(chapter: Chapter) -> Section | None:
    """Appendix B of the paper, for games given by a small payoff table."""
    game = _make_game(chapter)
    if game is None:
        return None
    solution = solve(game)
    rows, columns = game.shape
    size = max(2, len(solution.coverage_set))
    if math.comb(rows * columns + size - 1, size) > MOST_POPULATIONS:
        return None
    return diversity_section(chapter, solution, preferred_populations(solution))


def _make_game(chapter: Chapter) -> Game | None:
    """The game of two players and one common table that the chapter is about, if it is one."""
    parameters = chapter.methods[0].runs[0].config["env_parameters"]
    payoffs = parameters.get("payoffs")
    if chapter.env not in built_in_games() or payoffs is None or parameters.get("by_player"):
        return None
    if parameters.get("players", 2) != 2:
        return None
    try:
        game = game_from_table(payoffs, name=chapter.env)
    except ValueError:
        return None
    if game.players != 2:
        return None
    named = load(chapter.env)
    return named if named.ego == game.ego else game


def _runs_part(chapters: Sequence[Chapter], runs: Sequence[RunRecord], unreadable: Sequence[UnreadableRun]) -> Part:
    """List every run and agent with its state, unfinished and damaged ones first."""
    entries = [(run.path, _game(run), run.method, "", run.seed, describe_state(run)) for run in runs]
    entries += [
        (agent.path, _game(run), run.method, learner_title(agent.learner), agent.seed, describe_state(agent))
        for run in runs
        for agent in run.agents
    ]
    entries += [(item.path, None, None, None, None, f"damaged: {item.problem}") for item in unreadable]
    entries.sort(key=lambda entry: entry[0])
    columns = ("path", "environment", "method", "learner", "seed", "state")
    data = DataTable("runs", columns, tuple(entries))
    rows = [tuple("" if cell is None else str(cell) for cell in entry) for entry in entries]
    open_ones = [row for row in rows if row[-1] != "finished"]
    blocks: list[Block] = []
    if open_ones:
        caption = "Unfinished or damaged. Only their finished parts are included in the results above."
        blocks += [HtmlTable(caption, columns, open_ones, text_columns=6)]
    else:
        blocks.append(Paragraph("All runs and agents are finished and readable."))
    caption = "Paths are relative to the study directory."
    blocks.append(HtmlTable(caption, columns, rows, (data,), text_columns=6, folded=f"All {len(rows)} runs and agents"))
    return Part("runs", "Runs", blocks)


def _game(run: RunRecord) -> str:
    return game_title(run.config["env"], run.config["env_parameters"])


GLOSSARY = (
    "Teammate, best response: generation trains pairs of policies. The agent trains with the teammates; a best "
    "response is trained to maximise the return with its teammate.",
    "Self-play, cross-play: a best response with its own teammate, and with the teammate of another pair.",
    "Coverage set: a set of policies that contains a best response to every possible teammate. A member is found if "
    "the best response of some pair plays it and it is a best response to that pair's teammate.",
    "Agent: the ad hoc agent trained with the generated teammates. RL² has a memory that lasts for a trial, a "
    "feed-forward agent has none, PLASTIC-Policy chooses among the best responses by a belief about its partner.",
    "Held-out partner: a partner that the agent never trains with.",
    "95% interval: a confidence interval for the mean over seeds. Student's assumes normally distributed seeds; the "
    "bootstrap's assumes no distribution but is too narrow for few seeds.",
    "Constraint, margin, gap: a pair's self-play return must exceed its cross-play returns by the margin; the gap is "
    "self-play minus cross-play minus margin.",
    "Multiplier: the Lagrange multiplier of one constraint, for methods that have them.",
)


def _glossary_part() -> Part:
    return Part("glossary", "Glossary", [BulletList(GLOSSARY)])
