"""Generate teammates for the matrix game with L-BRDiv and print their cross-play matrix.

Row i, column j is the mean return of best response i with teammate j. The diagonal, self-play, is the largest entry of
its row and column: every pair has a convention of its own.
"""

from tempfile import TemporaryDirectory

import coverset


def main() -> None:
    with TemporaryDirectory() as out:
        (run,) = coverset.generate("matrix", method="lbrdiv", seeds=[0], out=out)
    for row in run["cross_play"]:
        print("  ".join(f"{value:6.2f}" for value in row))
    print("teammates:", "; ".join(run["conventions"]))
    print("members of the coverage set:", run["coverage_found"], "of", run["coverage_size"])


if __name__ == "__main__":
    main()
