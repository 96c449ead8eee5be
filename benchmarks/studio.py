"""How soon the studio shows its first page, and how long fifty clients at once wait for static data.

Starts `coverset studio` as a process of its own, times the way to its first page, then lets clients ask, each in a
thread and on a connection that it keeps, as a browser does.

    python benchmarks/studio.py runs
"""

import argparse
import http.client
import itertools
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

PATHS = ("/", "/style.css", "/js/main.js", "/api/runs")


def ask(connection: http.client.HTTPConnection, path: str) -> float:
    """Seconds until an answer has arrived whole."""
    started = time.perf_counter()
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    if response.status != 200:
        raise SystemExit(f"{path} was answered with {response.status}.")
    return time.perf_counter() - started


def visit(port: int, rounds: int) -> list[float]:
    """One client: asks for everything, again and again."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    seconds = [ask(connection, path) for _ in range(rounds) for path in PATHS]
    connection.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    started = time.perf_counter()
    run = "from coverset.cli.main import main; main()"
    command = [sys.executable, "-c", run, "studio", options.directory, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as studio:
        assert studio.stdout is not None
        port = urlsplit(json.loads(studio.stdout.readline())["address"]).port or 0
        listening = time.perf_counter() - started
        first = visit(port, 1)
        with ThreadPoolExecutor(options.clients) as clients:
            visits = list(clients.map(lambda _: visit(port, options.rounds), range(options.clients)))
        waits = sorted(itertools.chain(*visits))
        studio.terminate()
    print(f"from the command to an open port: {listening:.2f} s; then all of the first page: {sum(first):.2f} s")
    print(
        f"{options.clients} clients, {len(waits)} answers: median {1000 * statistics.median(waits):.0f} ms, "
        f"95 in 100 within {1000 * waits[int(0.95 * len(waits))]:.0f} ms, the slowest {1000 * waits[-1]:.0f} ms"
    )


if __name__ == "__main__":
    main()
