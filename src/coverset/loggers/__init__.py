"""Third-party metric loggers, which receive the rows of `metrics.jsonl`."""
