"""The HTML report of a study: its figures, tables and text, and the figures of a single run."""
