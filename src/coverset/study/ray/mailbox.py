"""The mailbox between the workers of a Ray cluster and the process that started the study. Its imports are fast."""

from typing import Any


class Mailbox:
    """A Ray actor that holds the stop flag and the workers' messages."""

    def __init__(self) -> None:
        self.stopping = False
        self.messages: list[tuple[str, str, tuple[Any, ...]]] = []

    def ask_to_stop(self) -> None:
        """Set the stop flag."""
        self.stopping = True

    def should_stop(self) -> bool:
        """Whether to save a checkpoint and stop."""
        return self.stopping

    def post(self, unit: str, method: str, arguments: tuple[Any, ...]) -> None:
        """Store a call of a reporter's method on behalf of a unit."""
        self.messages.append((unit, method, arguments))

    def collect(self) -> list[tuple[str, str, tuple[Any, ...]]]:
        """Return and remove all messages."""
        messages, self.messages = self.messages, []
        return messages
