"""`coverset demo`: the main job in small, with something to look at."""

import shutil
from pathlib import Path
from typing import Annotated

import tyro

from coverset.cli.shared import enable_compilation_cache, stop_on_interrupt

METHODS = ("lbrdiv", "brdiv", "lipo")
SEEDS = (0, 1, 2, 3)


def demo(out: Annotated[Path, tyro.conf.arg(help="Directory of the runs; emptied first.")] = Path("runs/demo")) -> int:
    """Generate teammates for the paper's matrix game by L-BRDiv, BRDiv and LIPO, and compare what they found."""
    enable_compilation_cache()

    from coverset.cli.progress import TrainingProgress
    from coverset.cli.tables import print_summaries
    from coverset.generation import generate
    from coverset.reports.figures import cross_play_figure, save_figure

    if out.is_dir() and all((child / "seed-0" / "config.json").is_file() for child in out.iterdir() if child.is_dir()):
        shutil.rmtree(out)
    results = []
    with stop_on_interrupt() as should_stop:
        for method in METHODS:
            with TrainingProgress(quiet=False, should_stop=should_stop) as progress:
                results.append(generate("matrix", method=method, seeds=SEEDS, out=out / method, reporter=progress))
            print_summaries(results[-1])
    picture = out / "cross-play.png"
    save_figure(picture, cross_play_figure([summaries[0] for summaries in results]))
    print(f"The matrix game needs three conventions. What each method found, side by side: {picture}")
    return 0


def main(arguments: list[str]) -> int:
    """Parse and run."""
    return tyro.cli(demo, prog="coverset demo", args=arguments)
