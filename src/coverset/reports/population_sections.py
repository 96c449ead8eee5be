"""Report sections about generated teammates: coverage, cross-play, training, certificates, Appendix B."""

from coverset.reports import population_figures, tables
from coverset.reports.blocks import Block, FigureRow, HtmlTable, Paragraph, Picture, Section
from coverset.reports.chapters import Chapter
from coverset.reports.wording import TIMES, UNKNOWN, format_count, format_number
from coverset.solver import Preference, Solution, brdiv, coverage_cross_play, lipo


def coverage_section(chapter: Chapter) -> Section | None:
    """The members of the coverage set that each seed finds, and the conventions of its pairs."""
    populations = tables.population_table(chapter)
    if not populations.rows:
        return None
    pairs = tables.coverage_table(chapter)
    blocks: list[Block] = []
    if chapter.members:
        caption = (
            "Filled: at least one pair of the seed's population holds this member of the coverage set. "
            f"{TIMES}2, {TIMES}3: several pairs hold the same member."
        )
        figure = population_figures.coverage_figure(chapter)
        blocks.append(Picture(f"{chapter.slug}-coverage", figure, caption, (pairs,)))
    else:
        text = (
            "The coverage set of this environment is unknown. Teammates are classified by kind: two are of the same "
            "kind if one best response earns as much as any other with both. Kinds of different seeds are unrelated."
        )
        blocks.append(Paragraph(text))
    many = len(populations.rows) > 12
    blocks += [_population_table(populations, folded=many), _teammate_table(pairs)]
    return Section("coverage", "Coverage", blocks)


def _population_table(populations: tables.DataTable, *, folded: bool) -> HtmlTable:
    rows = []
    for method, seed, pairs, found, size, own, cross, violated, steps, seconds in populations.rows:
        count = (
            f"{found} of {size}" if size is not None else "unknown" if found is None else format_count(found, "kind")
        )
        constraints = UNKNOWN if violated is None else "all hold" if violated == 0 else f"{violated} violated"
        played = (format_number(own), format_number(cross), constraints)
        rows.append(
            (method, str(seed), str(pairs), count, *played, format_number(steps), format_number(float(seconds)))
        )
    columns = ("method", "seed", "pairs", "found", "self-play", "cross-play", "constraints", "steps", "seconds")
    caption = (
        "Mean returns of the final policies over new episodes; constraints are measured on their discounted returns. "
        "Seeds that trained in parallel share their training seconds."
    )
    opened = f"All {len(rows)} populations as a table" if folded else ""
    return HtmlTable(caption, columns, rows, (populations,), folded=opened)


def _teammate_table(pairs: tables.DataTable) -> HtmlTable:
    rows = [
        (method, str(seed), str(pair), teammate or UNKNOWN, best_response or UNKNOWN, covered or "none")
        for method, seed, pair, teammate, best_response, covered in pairs.rows
    ]
    columns = ("method", "seed", "pair", "teammate in self-play", "its best response", "covers")
    caption = "Shares of self-play episodes by convention; shares under 1% are left out."
    return HtmlTable(caption, columns, rows, (pairs,), text_columns=6, folded=f"Conventions of all {len(rows)} pairs")


def cross_play_section(chapter: Chapter) -> Section | None:
    """Heat maps: one annotated seed of every method, and small maps of all seeds."""
    seed = population_figures.shown_seed(chapter)
    if seed is None:
        return None
    data = tables.cross_play_table(chapter)
    limits = population_figures.colour_range(chapter)
    maps = []
    for method in chapter.methods:
        if summaries := method.summaries():
            chosen = summaries[seed if seed in summaries else min(summaries)]
            figure = population_figures.cross_play_map(chosen, method.label, limits)
            maps.append(Picture(f"{chapter.slug}-cross-play--{method.slug}", figure, "", (data,)))
    caption = (
        "Mean return of every best response (rows, with the member it holds) with every teammate (columns); self-play "
        f"on the diagonal. Shown is the lowest seed that all methods share. Colours: {format_number(limits[0])} "
        f"(dark) to {format_number(limits[1])} (bright)."
    )
    blocks: list[Block] = [FigureRow(maps, caption)]
    if (multiples := population_figures.cross_play_multiples(chapter)) is not None:
        caption = "Cross-play of all seeds on the same colour scale, with the number of members found."
        blocks.append(Picture(f"{chapter.slug}-cross-play-all-seeds", multiples, caption, (data,)))
    if (by_seat := tables.seat_return_table(chapter)).rows:
        blocks.append(_seat_return_table(by_seat))
    return Section("cross-play", "Cross-play", blocks)


def _seat_return_table(by_seat: tables.DataTable) -> HtmlTable:
    """Self-play alone: one row for each pair, one column for each seat."""
    own: dict[tuple, list[str]] = {}
    for method, seed, best_response, teammate, _, value in by_seat.rows:
        if best_response == teammate:
            own.setdefault((method, str(seed), str(best_response)), []).append(format_number(value))
    seats = max(map(len, own.values()), default=0)
    columns = ("method", "seed", "pair", *(f"seat {seat}" for seat in range(seats)))
    caption = (
        "Seats have rewards of their own. Everywhere else returns are those of the best response or agent; here, the "
        "mean return of every seat in self-play, with the best response in seat 0. The data have all pairs."
    )
    return HtmlTable(caption, columns, [(*pair, *values) for pair, values in own.items()], (by_seat,), text_columns=3)


def training_section(chapter: Chapter) -> Section | None:
    """Returns, constraint gaps and multipliers over teammate generation."""
    seed = population_figures.shown_seed(chapter)
    logged = [len(run.rows) for method in chapter.methods for run in method.finished.values()]
    if seed is None or max(logged) < 2:  # one point is no curve
        return None
    caption = (
        "Teammate generation. Lines are means over seeds, bands the range from the lowest to the highest seed. The gap "
        "of a constraint is self-play minus cross-play minus margin, by critic estimates; a constraint with a negative "
        "gap is violated. Lagrange multipliers, for methods that have them, grow while it is violated."
    )
    figure = population_figures.training_overview(chapter)
    overview = Picture(f"{chapter.slug}-generation", figure, caption, (tables.generation_table(chapter),))
    blocks: list[Block] = [overview]
    data = tables.constraint_table(chapter, seed)
    shown = [
        m
        for m in chapter.methods
        if seed in m.finished
        and m.finished[seed].rows
        and all(row["gaps"] is not None for row in m.finished[seed].rows)
    ]
    pictures = [
        Picture(f"{chapter.slug}-constraints--{m.slug}", population_figures.constraint_figure(m, seed), "", (data,))
        for m in shown
    ]
    caption = (
        f"Constraints of seed {seed}, by the pair that they protect. Lines show the one that binds most, the smallest "
        "gap and the largest multiplier, bands the range of all: solid against other best responses for the pair's "
        "teammate, dashed against other teammates for its best response."
    )
    if pictures:
        blocks.append(FigureRow(pictures, caption))
    return Section("training", "Constraints and multipliers", blocks)


def certificate_section(chapter: Chapter) -> Section | None:
    """Exact results of `coverset certify`; None without certificates."""
    verdicts = tables.certificate_table(chapter)
    if not verdicts.rows:
        return None
    first = next(c for method in chapter.methods for c in method.certificates().values())
    text = (
        f"Computed over all {first['states']:,} joint states and {format_count(first['horizon'], 'step')} of the game, "
        f"without sampling, with returns discounted by {first['discounted']['discount']:g}. Regret is what a best "
        "response loses against the optimal policy for its teammate that has the same observations."
    )
    rows = []
    for method, seed, count, violated, gap, margin, _, low, high in verdicts.rows:
        held = f"all {count} hold" if violated == 0 else f"{violated} of {count} violated"
        rows.append((method, str(seed), held, format_number(gap), f"{margin:g}", _bounds(low, high)))
    columns = ("method", "seed", "exact constraints", "smallest gap", "margin", "largest regret")
    caption = "For a regret given as “a to b”, only these bounds are known."
    populations = HtmlTable(caption, columns, rows, (verdicts,))
    return Section("certificates", "Certificates", [Paragraph(text), populations, _best_response_table(chapter)])


def _best_response_table(chapter: Chapter) -> HtmlTable:
    table = tables.best_response_table(chapter)
    rows = []
    for method, seed, pair, teammate, own, observed, *bounds in table.rows:
        values = (format_number(own, 4), format_number(observed, 4), _bounds(*bounds[:2]), _bounds(*bounds[2:]))
        rows.append((method, str(seed), str(pair), teammate or UNKNOWN, *values))
    columns = ("method", "seed", "pair", "teammate", "own return", "optimum, full state", "optimum, observed", "regret")
    caption = (
        "For every teammate: the return of its own best response, and the optimal return of a policy that observes the "
        "full state and of one that has the best response's observations."
    )
    return HtmlTable(caption, columns, rows, (table,), text_columns=4, folded=f"Exact values of all {len(rows)} pairs")


def _bounds(low: float, high: float) -> str:
    """Format bounds, as one number if both ends are formatted alike."""
    low, high = (0.0 if abs(end) < 5e-7 else end for end in (low, high))
    return (
        format_number(high)
        if format_number(low) == format_number(high)
        else f"{format_number(low)} to {format_number(high)}"
    )


def diversity_section(chapter: Chapter, solution: Solution, preferences: tuple[Preference, ...]) -> Section:
    """Appendix B of the paper for this game: whether any alpha makes the baselines prefer the coverage set."""
    cross_play = coverage_cross_play(solution)
    objectives = {"BRDiv": str(brdiv(cross_play)), "LIPO": str(lipo(cross_play))}
    entries = [(p.method, "the coverage set", objectives[p.method], "") for p in preferences]
    for preference in preferences:
        entries += [
            (preference.method, "best population without a member", str(other.objective), _pairs(solution, other))
            for other in preference.others
        ]
    entries.sort(key=lambda entry: entry[0])
    columns = ("method", "population", "objective", "pairs_best_response_teammate")
    data = tables.make_table(chapter, "diversity", columns, entries)
    caption = (
        "Objectives as functions of alpha, the weight of cross-play, maximised over all "
        f"{preferences[0].populations:,} populations of {preferences[0].size} pairs of pure policies."
    )
    shown = ("method", "population", "objective", "pairs: best response and teammate")
    text = "The baselines' objectives, solved exactly as in Appendix B of the paper: " + " ".join(
        preference.verdict for preference in preferences
    )
    table = HtmlTable(caption, shown, [tuple(cell or UNKNOWN for cell in entry) for entry in entries], (data,), 4)
    return Section("diversity", "What the baselines' objectives prefer", [Paragraph(text), table])


def _pairs(solution: Solution, population) -> str:
    game = solution.game
    pairs = zip(population.best_responses, population.teammates, strict=True)
    return "; ".join(f"{game.ego_actions[i]} and {game.teammate_actions[j]}" for i, j in pairs)
