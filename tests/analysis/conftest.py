"""Lets these tests import `known_answers`, which all of `tests/` shares."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
