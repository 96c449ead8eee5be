"""Report sections about ad hoc agents: robustness, adaptation, results per partner."""

from coverset.reports import agent_figures
from coverset.reports import agent_tables as tables
from coverset.reports.agent_groups import AgentGroup
from coverset.reports.blocks import Block, HtmlTable, Picture, Section
from coverset.reports.chapters import Chapter
from coverset.reports.records import Content
from coverset.reports.tables import DataTable
from coverset.reports.wording import MINUS, UNKNOWN, format_interval, format_number

Ends = tuple[float | None, float | None]
BANDS = "Student's 95% intervals (the range of two seeds; none with one)"


def robustness_section(chapter: Chapter) -> Section | None:
    """Return with held-out partners: over training, final, and compared between methods."""
    blocks: list[Block] = []
    trained = [agents for agents in chapter.agents if _has_training_curve(chapter, agents.label)]
    if trained:
        blocks.append(_training_picture(chapter, trained))
    final = tables.final_table(chapter)
    if final.rows:
        blocks += [_final_picture(chapter), _final_table(chapter, final)]
    if (compared := tables.difference_table(chapter)).rows:
        figure = agent_figures.difference_figure(chapter)
        assert figure is not None
        caption = (
            f"{chapter.reference.label} minus each other method, paired by seed. Positive values mean that "
            f"{chapter.reference.label} earns more. Markers are as in the figure above."
        )
        blocks += [
            Picture(f"{chapter.slug}-differences", figure, caption, (compared,)),
            _difference_table(chapter, compared),
        ]
    return Section("robustness", "Robustness with held-out partners", blocks) if blocks else None


def _has_training_curve(chapter: Chapter, label: str) -> bool:
    """Whether returns were measured at two points of training at least: one point is no curve."""
    return any(len(tables.shared_points(tables.training_curves(method, label))) > 1 for method in chapter.methods)


def _training_picture(chapter: Chapter, shown: list[AgentGroup]) -> Picture:
    curves = {(m.label, a.label): tables.training_curves(m, a.label) for a in shown for m in chapter.methods}
    caption = (
        "Mean return per episode with held-out partners, measured during agent training. Lines are means over seeds, "
        f"bands {BANDS}."
    )
    figure = agent_figures.robustness_figure(chapter, shown)
    data = tables.curve_tables(chapter, "robustness", "env_steps", curves)
    return Picture(f"{chapter.slug}-robustness", figure, caption, data)


def _final_picture(chapter: Chapter) -> Picture:
    caption = (
        "Mean return per episode of the finished agents over all held-out partners. Diamonds are means over seeds, "
        "dots single seeds; with three seeds or more, wide bars are Student's 95% intervals and thin lines bootstrap "
        "95% intervals."
    )
    data = (tables.final_by_seed_table(chapter),)
    return Picture(f"{chapter.slug}-final-returns", agent_figures.final_figure(chapter), caption, data)


def _final_table(chapter: Chapter, final: DataTable) -> HtmlTable:
    rows = []
    for method, label, seeds, mean, low, high, boot_low, boot_high, fraction, exact, *ends in final.rows:
        intervals = _intervals(seeds, (low, high), (boot_low, boot_high), ends)
        agent = chapter.agent_title(label)
        rows.append((method, agent, str(seeds), format_number(mean), *intervals, _fraction(fraction, exact)))
    columns = ("method", "agent", "seeds", "mean return", "95% Student", "95% bootstrap", "of the oracle")
    caption = (
        "The same results as numbers. With few seeds the bootstrap interval is too narrow; prefer Student's. The last "
        "column is the mean over partners of return / oracle return, not clipped at 100%; the oracle knows its partner "
        "from the start."
    )
    if any(row[-3] is False for row in final.rows):
        caption += " ≥ marks fractions of an upper bound on the oracle return, which are lower bounds."
    return HtmlTable(caption, columns, rows, (final,), text_columns=2)


def _intervals(seeds: int, student: Ends, bootstrap: Ends, extremes: list[float]) -> tuple[str, str]:
    """Format both intervals; two seeds are shown once, and have no bootstrap interval that says more."""
    if seeds == 2:
        return format_interval(*student, extremes), UNKNOWN
    return format_interval(*student), format_interval(*bootstrap)


def _fraction(fraction: float | None, exact: bool | None) -> str:
    if fraction is None:
        return UNKNOWN
    return f"{'' if exact else '≥ '}{100 * fraction:.1f}%"


def _difference_table(chapter: Chapter, compared: DataTable) -> HtmlTable:
    rows = [
        (
            f"{first} {MINUS} {second}",
            chapter.agent_title(label),
            str(seeds),
            format_number(mean),
            *_intervals(seeds, tuple(ends[:2]), tuple(ends[2:4]), ends[4:]),
        )
        for label, first, second, seeds, mean, *ends in compared.rows
    ]
    columns = ("difference", "agent", "seeds", "mean", "95% Student", "95% bootstrap")
    return HtmlTable(
        "If an interval contains 0, these seeds do not distinguish the methods.", columns, rows, text_columns=2
    )


def adaptation_section(chapter: Chapter) -> Section | None:
    """Returns of the first, second, ... episode with the same partner."""
    shown = [a for a in chapter.agents if any(tables.adaptation_curves(m, a.label) for m in chapter.methods)]
    if not shown:
        return None
    curves = {(m.label, a.label): tables.adaptation_curves(m, a.label) for a in shown for m in chapter.methods}
    caption = (
        "A trial is a sequence of episodes with one partner, during which the agent keeps its memory. A rising line "
        f"shows an agent that adapts to its partner. Means over all held-out partners and seeds; bands are {BANDS}"
    )
    known = any(agent_figures.mean_oracle(chapter, agents.label) is not None for agents in shown)
    caption += "; the dotted line is the mean oracle return." if known else "."
    figure = agent_figures.adaptation_figure(chapter, shown)
    data = tables.curve_tables(chapter, "adaptation", "episode", curves)
    picture = Picture(f"{chapter.slug}-adaptation", figure, caption, data)
    return Section("adaptation", "Adaptation within a trial", [picture])


def partner_section(chapter: Chapter) -> Section | None:
    """Results with each held-out partner: one table for each group of agents, methods side by side."""
    partners = tables.partner_table(chapter)
    if not partners.rows:
        return None
    shown = [agents for agents in chapter.agents if any(row[0] == agents.label for row in partners.rows)]
    blocks = [_partner_table(chapter, partners, agents, folded=n > 0) for n, agents in enumerate(shown)]
    teams = tables.team_table(chapter)
    if any(row[2] == "mixed" or row[8] is not None for row in teams.rows):
        blocks.append(_team_table(chapter, teams))
    return Section("partners", "Results by partner", blocks)


def _team_table(chapter: Chapter, teams: DataTable) -> HtmlTable:
    """Whole and mixed teams, with the returns of all seats where these differ."""
    rows = [
        (
            *(chapter.agent_title(label), method, team, kind, format_number(mean), format_interval(low, high, ends)),
            ", ".join(format_number(float(value)) for value in seats.split()) if seats else UNKNOWN,
        )
        for label, method, kind, team, seeds, mean, low, high, seats, *extremes in teams.rows
        for ends in [extremes if seeds == 2 else ()]
    ]
    columns = ("agent", "method", "team", "kind", "return", "95% interval", "returns by seat")
    caption = (
        "A whole team is one partner in all seats but the agent's; in a mixed one, partners that are joined by + take "
        "these seats in their order, counted on from the agent's. Where seats have rewards of their own, returns of "
        "all seats are listed, from seat 0 on."
    )
    return HtmlTable(caption, columns, rows, (teams,), text_columns=4)


def _partner_table(chapter: Chapter, partners: DataTable, agents: AgentGroup, *, folded: bool) -> HtmlTable:
    """One row per partner; for each method the return, its spread over seeds, and the fraction of the best known."""
    methods = [method.label for method in chapter.methods if method.evaluations.get(agents.label)]
    found = [dict(zip(partners.columns, row, strict=True)) for row in partners.rows if row[0] == agents.label]
    cells = {(cell["partner"], cell["method"]): cell for cell in found}
    known = "oracle" if any(cell["oracle"] is not None for cell in found) else "reference"
    unknown = known == "reference" and all(cell["reference"] is None for cell in found)
    rows = []
    for partner in tables.partner_names(chapter, agents.label):
        line = [partner, *([] if unknown else _best_known(next(c for c in found if c["partner"] == partner), known))]
        for method in methods:
            if (cell := cells.get((partner, method))) is None:
                line += [UNKNOWN] * (2 if unknown else 3)
                continue
            both = (cell["lowest_seed"], cell["highest_seed"]) if cell["seeds"] == 2 else ()
            line += [format_number(cell["mean_return"]), format_interval(cell["low"], cell["high"], both)]
            line += [] if unknown else [_share(cell, known)]
        rows.append(line)
    before = [] if unknown else ["oracle", "full information"] if known == "oracle" else ["reference"]
    after = ["return", "95% interval", *([] if unknown else [f"of the {known}"])]
    caption = f"{agents.title} agents with each held-out partner: mean return per episode and Student's interval over "
    caption += "seeds." if unknown else f"seeds, and the fraction of the {known} return: {BEST_KNOWN[known]}"
    groups = [("", 1 + len(before)), *((method, len(after)) for method in methods)]
    columns = ["partner", *before, *after * len(methods)]
    opened = f"{agents.title} agents" if folded else ""
    return HtmlTable(caption, columns, rows, (partners,), folded=opened, groups=groups)


BEST_KNOWN = {
    "oracle": "the best return of an agent that knows its partner but has the same observations. With full information "
    "it also sees the partner's private random draws. “at most” marks upper bounds, whose fractions are lower bounds.",
    "reference": "what the best responses of the partner's own seed earn with it, since no oracle is known.",
}


def _best_known(cell: Content, known: str) -> list[str]:
    if known == "reference":
        return [format_number(cell["reference"])]
    return [_oracle(cell["oracle"], cell["oracle_exact"]), _oracle(cell["full_information"], cell["oracle_exact"])]


def _share(cell: Content, known: str) -> str:
    """The fraction of the oracle or of the reference."""
    if known == "oracle":
        return _fraction(cell["oracle_fraction"], cell["oracle_exact"])
    return _fraction(cell["mean_return"] / cell["reference"] if cell["reference"] else None, True)


def _oracle(value: float | None, exact: bool | None) -> str:
    return format_number(value) if value is None or exact else f"at most {format_number(value)}"
