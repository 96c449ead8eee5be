"""Sections about generated teammates: coverage, cross-play, training, certificates, and Appendix B."""

from coverset.reports import population_figures, tables
from coverset.reports.blocks import Block, Grid, Picture, Row, Section, Words
from coverset.reports.chapters import Chapter
from coverset.reports.wording import TIMES, UNKNOWN, counted, number
from coverset.solver import Preference, Solution, brdiv, coverage_cross_play, lipo


def coverage_section(chapter: Chapter) -> Section | None:
    """Which members of the coverage set each seed found, and what teammates do."""
    populations = tables.population_table(chapter)
    if not populations.rows:
        return None
    pairs = tables.coverage_table(chapter)
    blocks: list[Block] = []
    if chapter.members:
        caption = (
            "Filled: at least one pair of the seed's population holds this member of the coverage set. "
            f"{TIMES}2, {TIMES}3: several pairs hold the same one."
        )
        figure = population_figures.coverage_figure(chapter)
        blocks.append(Picture(f"{chapter.slug}-coverage", figure, caption, (pairs,)))
    else:
        told = (
            "The coverage set of this environment is not known. Its teammates are told apart by kinds: two are of one "
            "kind if one best response does for both as well as any. Kinds of different seeds have nothing in common."
        )
        blocks.append(Words(told))
    many = len(populations.rows) > 12
    blocks += [_population_grid(populations, folded=many), _teammate_grid(pairs)]
    return Section("coverage", "Coverage: what the teammates play", blocks)


def _population_grid(populations: tables.Table, *, folded: bool) -> Grid:
    rows = []
    for method, seed, pairs, found, size, own, cross, violated, steps, seconds in populations.rows:
        count = f"{found} of {size}" if size is not None else "unknown" if found is None else counted(found, "kind")
        constraints = "all hold" if violated == 0 else f"{violated} violated"
        played = (number(own), number(cross), constraints)
        rows.append((method, str(seed), str(pairs), count, *played, number(steps), number(float(seconds))))
    columns = ("method", "seed", "pairs", "found", "self-play", "cross-play", "constraints", "steps", "seconds")
    caption = (
        "Mean returns of fresh episodes by the final policies; constraints as measured in them, discounted. Seeds that "
        "trained side by side share their seconds."
    )
    opened = f"All {len(rows)} populations as a table" if folded else ""
    return Grid(caption, columns, rows, (populations,), folded=opened)


def _teammate_grid(pairs: tables.Table) -> Grid:
    rows = [
        (method, str(seed), str(pair), teammate or UNKNOWN, best_response or UNKNOWN, covered or "none")
        for method, seed, pair, teammate, best_response, covered in pairs.rows
    ]
    columns = ("method", "seed", "pair", "teammate in self-play", "its best response", "holds")
    caption = "Shares of self-play episodes by what was done in them; shares under 1% are left out."
    return Grid(caption, columns, rows, (pairs,), text_columns=6, folded=f"All {len(rows)} pairs in words")


def cross_play_section(chapter: Chapter) -> Section | None:
    """Heat maps: one seed of every method with numbers, and all seeds in small."""
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
        f"on the diagonal. Shown is the lowest seed that all methods have; colours run from {number(limits[0])} "
        f"(dark) to {number(limits[1])} (bright)."
    )
    blocks: list[Block] = [Row(maps, caption)]
    if (multiples := population_figures.cross_play_multiples(chapter)) is not None:
        caption = "The same for all seeds, in the same colours, with the number of members found."
        blocks.append(Picture(f"{chapter.slug}-cross-play-all-seeds", multiples, caption, (data,)))
    return Section("cross-play", "Cross-play", blocks)


def training_section(chapter: Chapter) -> Section | None:
    """Returns, constraint gaps and multipliers over generation."""
    seed = population_figures.shown_seed(chapter)
    if seed is None or not any(run.rows for method in chapter.methods for run in method.finished.values()):
        return None
    caption = (
        "Generation of the teammates. Lines are means over seeds, bands reach from the lowest seed to the highest. A "
        "constraint's gap is what self-play earns more than cross-play, minus the margin, by the critic's estimates; "
        "the constraint holds where it is positive. Multipliers are L-BRDiv's; they grow while it is violated."
    )
    figure = population_figures.training_overview(chapter)
    overview = Picture(f"{chapter.slug}-generation", figure, caption, (tables.generation_table(chapter),))
    blocks: list[Block] = [overview]
    data = tables.constraint_table(chapter, seed)
    shown = [m for m in chapter.methods if seed in m.finished and m.finished[seed].rows]
    pictures = [
        Picture(f"{chapter.slug}-constraints--{m.slug}", population_figures.constraint_figure(m, seed), "", (data,))
        for m in shown
    ]
    caption = (
        f"Every constraint of seed {seed} by itself, coloured by the pair it protects; solid against other best "
        "responses for its teammate, dashed against other teammates for its best response. A gap is positive where the "
        "constraint holds; only L-BRDiv has multipliers."
    )
    blocks.append(Row(pictures, caption))
    return Section("training", "Constraints and multipliers", blocks)


def certificate_section(chapter: Chapter) -> Section | None:
    """Exact verdicts, where `coverset certify` has given some."""
    verdicts = tables.certificate_table(chapter)
    if not verdicts.rows:
        return None
    first = next(c for method in chapter.methods for c in method.certificates().values())
    told = (
        f"Computed over all {first['states']:,} joint states and {counted(first['horizon'], 'step')} of the game, "
        f"without sampling, with returns discounted by {first['discounted']['discount']:g}. Regret is what a best "
        "response gives away against the best policy for its teammate that sees no more than it does."
    )
    rows = []
    for method, seed, count, violated, gap, margin, _, low, high in verdicts.rows:
        held = f"all {count} hold" if violated == 0 else f"{violated} of {count} violated"
        rows.append((method, str(seed), held, number(gap), f"{margin:g}", _bounds(low, high)))
    columns = ("method", "seed", "constraints, exactly", "smallest gap", "margin", "largest regret")
    caption = "Where a regret is given as “a to b”, only these bounds are known."
    pairs = _best_response_grid(chapter)
    return Section("certificates", "Certificates", [Words(told), Grid(caption, columns, rows, (verdicts,)), pairs])


def _best_response_grid(chapter: Chapter) -> Grid:
    table = tables.best_response_table(chapter)
    rows = []
    for method, seed, pair, teammate, own, observed, *bounds in table.rows:
        values = (number(own, 4), number(observed, 4), _bounds(*bounds[:2]), _bounds(*bounds[2:]))
        rows.append((method, str(seed), str(pair), teammate or UNKNOWN, *values))
    columns = ("method", "seed", "pair", "teammate", "own return", "best, all seen", "best, as it sees", "regret")
    caption = (
        "For every teammate: the return of its own best response, the best return of a policy that sees everything, "
        "and of one that sees what a policy sees."
    )
    return Grid(caption, columns, rows, (table,), text_columns=4, folded=f"All {len(rows)} pairs, exactly")


def _bounds(low: float, high: float) -> str:
    """One number where both ends read the same."""
    low, high = (0.0 if abs(end) < 5e-7 else end for end in (low, high))
    return number(high) if number(low) == number(high) else f"{number(low)} to {number(high)}"


def diversity_section(chapter: Chapter, solution: Solution, preferences: tuple[Preference, ...]) -> Section:
    """Appendix B of the paper, computed for this game: whether any alpha makes the baselines want the coverage set."""
    cross_play = coverage_cross_play(solution)
    objectives = {"BRDiv": str(brdiv(cross_play)), "LIPO": str(lipo(cross_play))}
    entries = [(p.method, "the coverage set", objectives[p.method], "") for p in preferences]
    for preference in preferences:
        entries += [
            (preference.method, "the best that misses a member", str(other.objective), _pairs(solution, other))
            for other in preference.others
        ]
    entries.sort(key=lambda entry: entry[0])
    columns = ("method", "population", "objective", "pairs_best_response_teammate")
    data = tables.tidy(chapter, "diversity", columns, entries)
    caption = (
        "Objectives as functions of alpha, the weight of cross-play, compared over all "
        f"{preferences[0].populations:,} populations of {preferences[0].size} pairs of pure policies."
    )
    shown = ("method", "population", "objective", "its pairs: best response and teammate")
    told = "The baselines' objectives, solved exactly as in Appendix B of the paper: " + " ".join(
        preference.verdict for preference in preferences
    )
    grid = Grid(caption, shown, [tuple(cell or UNKNOWN for cell in entry) for entry in entries], (data,), 4)
    return Section("diversity", "What the baselines' objectives prefer", [Words(told), grid])


def _pairs(solution: Solution, population) -> str:
    game = solution.game
    pairs = zip(population.best_responses, population.teammates, strict=True)
    return "; ".join(f"{game.ego_actions[i]} and {game.teammate_actions[j]}" for i, j in pairs)
