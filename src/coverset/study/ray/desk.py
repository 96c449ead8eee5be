"""Where the workers of a Ray cluster and the process that started the study meet. Imports nothing that is slow."""

from typing import Any


class Desk:
    """Where workers ask whether to stop, and leave what they have to say. Runs as an actor of its own."""

    def __init__(self) -> None:
        self.stopping = False
        self.messages: list[tuple[str, str, tuple[Any, ...]]] = []

    def ask_to_stop(self) -> None:
        """From now on, whoever asks is told to stop."""
        self.stopping = True

    def should_stop(self) -> bool:
        """Whether to save a checkpoint and stop."""
        return self.stopping

    def leave(self, unit: str, method: str, arguments: tuple[Any, ...]) -> None:
        """Keep a call of a reporter's method, made for a unit."""
        self.messages.append((unit, method, arguments))

    def collect(self) -> list[tuple[str, str, tuple[Any, ...]]]:
        """All that was left since the last time."""
        messages, self.messages = self.messages, []
        return messages
