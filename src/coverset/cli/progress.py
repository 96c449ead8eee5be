"""Progress of commands, whose warnings name options of the command line."""

import sys

from coverset.cli.wording import in_options
from coverset.pipeline import progress


class CommandProgress(progress.TrainingProgress):
    """Shows the progress of a command on standard error."""

    def warn(self, sentence: str) -> None:
        print(f"coverset: {in_options(sentence)}", file=sys.stderr)
