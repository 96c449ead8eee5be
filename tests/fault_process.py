"""Commands in processes of their own that start quickly, because a server that has imported everything forks them."""

import multiprocessing
import os
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import coverset.cli.generate
import coverset.cli.train
import coverset.pipeline.generate
import coverset.pipeline.train
import coverset.reports.figures
from coverset.cli.main import main

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["fault_process"])


def start(arguments: list[str], log: Path) -> BaseProcess:
    """Begin `coverset ARGUMENTS`; what it prints goes to `log`, which exists once the command itself runs.

    A signal before that would meet the server's code instead of the command's.
    """
    log.unlink(missing_ok=True)
    process = CONTEXT.Process(target=_run, args=(arguments, log))
    process.start()
    while not log.exists() and process.is_alive():
        time.sleep(0.001)
    return process


def _run(arguments: list[str], log: Path) -> None:
    """The command with a checkpoint after every chunk. There is no option for it in `train`."""
    unready = log.with_suffix(".starting")
    target = os.open(unready, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(target, stream)
    sys.stdout.reconfigure(line_buffering=True)
    defaults = coverset.pipeline.train.train.__kwdefaults__
    assert defaults is not None
    defaults["checkpoint_seconds"] = 0.0
    unready.rename(log)
    main(arguments)
