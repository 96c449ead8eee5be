"""Rate limits for clients, and a lockout after wrong tokens."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """Token bucket parameters: burst size, and sustained rate."""

    burst: float
    per_second: float


class RateLimit:
    """A token bucket per client; the least recently used buckets are dropped."""

    def __init__(self, rate: Rate, *, most_clients: int = 1024, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.most_clients = most_clients
        self.clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str) -> bool:
        """Take a token from the client's bucket; return whether there was one."""
        now = self.clock()
        tokens, before = self._buckets.pop(client, (self.rate.burst, now))
        tokens = min(self.rate.burst, tokens + (now - before) * self.rate.per_second)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - 1 if allowed else tokens, now)
        while len(self._buckets) > self.most_clients:
            self._buckets.popitem(last=False)
        return allowed


class LockOut:
    """After `wrong` failures within `seconds`, refuse tokens until the oldest of them is `seconds` old."""

    def __init__(self, wrong: int, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.clock = clock
        self._wrong: deque[float] = deque(maxlen=wrong)

    def record_failure(self) -> None:
        """Count a wrong token."""
        self._wrong.append(self.clock())

    def wait(self) -> float:
        """Seconds until tokens are accepted again, 0 if they are accepted now."""
        if len(self._wrong) < (self._wrong.maxlen or 0):
            return 0.0
        return max(0.0, self._wrong[0] + self.seconds - self.clock())
