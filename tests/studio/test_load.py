"""Fifty concurrent clients get correct responses; `benchmarks/studio.py` measures the latency."""

from concurrent.futures import ThreadPoolExecutor

CLIENTS = 50
PATHS = ("/", "/style.css", "/js/main.js", "/api/runs", "/api/run?run=matrix/seed-0", "/api/run?run=matrix/seed-1")


def test_fifty_clients_at_once_get_the_right_answers(shared):
    expected = {path: shared.get(path).body for path in PATHS}

    def visit(client: int) -> list[tuple[int, bool]]:
        paths = PATHS[client % len(PATHS) :] + PATHS[: client % len(PATHS)]
        answers = [(path, shared.get(path)) for path in paths]
        return [(answer.status, answer.body == expected[path]) for path, answer in answers]

    with ThreadPoolExecutor(CLIENTS) as clients:
        visits = list(clients.map(visit, range(CLIENTS)))
    assert {answer for answers in visits for answer in answers} == {(200, True)}
