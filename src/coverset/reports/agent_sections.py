"""Report sections about ad hoc agents: robustness, adaptation, results per partner."""

from coverset.reports import agent_figures, tables
from coverset.reports.blocks import Block, HtmlTable, Picture, Section
from coverset.reports.chapters import Chapter, learner_name
from coverset.reports.wording import MINUS, UNKNOWN, format_interval, format_number


def robustness_section(chapter: Chapter) -> Section | None:
    """Return with held-out partners: over training, final, and compared between methods."""
    blocks: list[Block] = []
    trained = [name for name in chapter.learners if any(tables.training_curves(m, name) for m in chapter.methods)]
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
        blocks += [Picture(f"{chapter.slug}-differences", figure, caption, (compared,)), _difference_table(compared)]
    return Section("robustness", "Robustness with held-out partners", blocks) if blocks else None


def _training_picture(chapter: Chapter, learners: list[str]) -> Picture:
    curves = {(m.label, name): tables.training_curves(m, name) for name in learners for m in chapter.methods}
    caption = (
        "Mean return per episode with held-out partners, measured during agent training. Lines are means over seeds, "
        "bands Student's 95% intervals (none with one seed)."
    )
    figure = agent_figures.robustness_figure(chapter, learners)
    data = tables.curve_tables(chapter, "robustness", "env_steps", curves)
    return Picture(f"{chapter.slug}-robustness", figure, caption, data)


def _final_picture(chapter: Chapter) -> Picture:
    caption = (
        "Mean return per episode of the finished agents over all held-out partners. Diamonds are means over seeds, "
        "dots single seeds, wide bars Student's 95% intervals, thin lines bootstrap 95% intervals."
    )
    data = (tables.final_by_seed_table(chapter),)
    return Picture(f"{chapter.slug}-final-returns", agent_figures.final_figure(chapter), caption, data)


def _final_table(chapter: Chapter, final: tables.DataTable) -> HtmlTable:
    rows = []
    for method, learner, seeds, mean, low, high, boot_low, boot_high, fraction, exact in final.rows:
        intervals = (format_interval(low, high), format_interval(boot_low, boot_high))
        rows.append(
            (method, learner_name(learner), str(seeds), format_number(mean), *intervals, _fraction(fraction, exact))
        )
    columns = ("method", "agent", "seeds", "mean return", "95% Student", "95% bootstrap", "of the oracle")
    caption = (
        "The same results as numbers. With few seeds the bootstrap interval is too narrow; prefer Student's. The last "
        "column is the mean over partners of return / oracle return, not clipped at 100%; the oracle knows its partner "
        "from the start."
    )
    if any(row[-1] is False for row in final.rows):
        caption += " ≥ marks fractions of an upper bound on the oracle return, which are lower bounds."
    return HtmlTable(caption, columns, rows, (final,), text_columns=2)


def _fraction(fraction: float | None, exact: bool | None) -> str:
    if fraction is None:
        return UNKNOWN
    return f"{'' if exact else '≥ '}{100 * fraction:.1f}%"


def _difference_table(compared: tables.DataTable) -> HtmlTable:
    rows = [
        (
            f"{first} {MINUS} {second}",
            learner_name(learner),
            str(seeds),
            format_number(mean),
            format_interval(*ends[:2]),
            format_interval(*ends[2:]),
        )
        for learner, first, second, seeds, mean, *ends in compared.rows
    ]
    columns = ("difference", "agent", "seeds", "mean", "95% Student", "95% bootstrap")
    return HtmlTable(
        "If an interval contains 0, these seeds do not distinguish the methods.", columns, rows, text_columns=2
    )


def adaptation_section(chapter: Chapter) -> Section | None:
    """Returns of the first, second, ... episode with the same partner."""
    learners = [name for name in chapter.learners if any(tables.adaptation_curves(m, name) for m in chapter.methods)]
    if not learners:
        return None
    curves = {(m.label, name): tables.adaptation_curves(m, name) for name in learners for m in chapter.methods}
    caption = (
        "A trial is a sequence of episodes with one partner, during which the agent keeps its memory. A rising line "
        "shows an agent that adapts to its partner. Means over all held-out partners and seeds, with Student's 95% "
        "intervals over seeds"
    )
    caption += "; the dotted line is the mean oracle return." if _has_oracle(chapter) else "."
    figure = agent_figures.adaptation_figure(chapter, learners)
    data = tables.curve_tables(chapter, "adaptation", "episode", curves)
    picture = Picture(f"{chapter.slug}-adaptation", figure, caption, data)
    return Section("adaptation", "Adaptation within a trial", [picture])


def _has_oracle(chapter: Chapter) -> bool:
    return agent_figures.mean_oracle(chapter) is not None


def partner_section(chapter: Chapter) -> Section | None:
    """Results with each held-out partner: one table per learner, methods side by side."""
    partners = tables.partner_table(chapter)
    if not partners.rows:
        return None
    learners = [name for name in chapter.learners if any(row[0] == name for row in partners.rows)]
    by_learner = [_partner_table(chapter, partners, learner, folded=n > 0) for n, learner in enumerate(learners)]
    teams = tables.team_table(chapter)
    if any(row[2] == "mixed" or row[-1] is not None for row in teams.rows):
        by_learner.append(_team_table(teams))
    return Section("partners", "Results by partner", by_learner)


def _team_table(teams: tables.DataTable) -> HtmlTable:
    """Whole and mixed teams, with the returns of all seats where these differ."""
    rows = [
        (
            *(learner_name(learner), method, team, kind, format_number(mean), format_interval(low, high)),
            ", ".join(format_number(float(value)) for value in seats.split()) if seats else UNKNOWN,
        )
        for learner, method, kind, team, _, mean, low, high, seats in teams.rows
    ]
    columns = ("agent", "method", "team", "kind", "return", "95% interval", "returns by seat")
    caption = (
        "A whole team is one partner in all seats but the agent's; in a mixed one, partners that are joined by + take "
        "these seats in their order, counted on from the agent's. Where seats have rewards of their own, returns of "
        "all seats are listed, from seat 0 on."
    )
    return HtmlTable(caption, columns, rows, (teams,), text_columns=4)


def _partner_table(chapter: Chapter, partners: tables.DataTable, learner: str, *, folded: bool) -> HtmlTable:
    """One row per partner, three columns per method."""
    labels = [method.label for method in chapter.methods if method.evaluations.get(learner)]
    cells = {(row[1], row[2]): row for row in partners.rows if row[0] == learner}
    rows = []
    for partner in tables.partner_names(chapter):
        known = cells[partner, labels[0]]
        line = [partner, _oracle(known[7], known[8]), _oracle(known[9], known[8])]
        for label in labels:
            row = cells[partner, label]
            line += [format_number(row[4]), format_interval(row[5], row[6]), _fraction(row[10], row[8])]
        rows.append(line)
    columns = ["partner", "oracle", "full information", *("return", "95% interval", "of the oracle") * len(labels)]
    groups = [("", 3), *((label, 3) for label in labels)]
    caption = (
        f"{learner_name(learner)} agents with each held-out partner: mean return per episode, Student's interval over "
        "seeds, and the fraction of the oracle return: the best return of an agent that knows its partner but has the "
        "same observations. With full information it also sees the partner's private random draws. “at most” "
        "marks upper bounds, whose fractions are lower bounds."
    )
    opened = f"{learner_name(learner)} agents" if folded else ""
    return HtmlTable(caption, columns, rows, (partners,), folded=opened, groups=groups)


def _oracle(value: float | None, exact: bool | None) -> str:
    return format_number(value) if value is None or exact else f"at most {format_number(value)}"
