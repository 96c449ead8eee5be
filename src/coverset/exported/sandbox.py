"""Parse programs from files in a separate process, which may crash, run out of memory or time out."""

import json
import os
import signal
import subprocess
import sys

from coverset.exported import programs
from coverset.exported.programs import READING_SECONDS, SECONDS_LIMIT, ProgramRefused

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""For NumPy, which jaxlib imports: 40 MB of the limit of memory would go to a thread for each processor."""
Signature = tuple[list[tuple[str, str]], list[tuple[str, str]]]


def clean_programs(parts: dict[str, bytes], wanted: dict[str, Signature]) -> dict[str, bytes]:
    """Parse, check and rewrite each program, whose arguments and results must have the wanted names and types.

    Raises:
      ProgramRefused: names the refused program and the reason.
    """
    request = [(name, len(part), wanted[name]) for name, part in parts.items()]
    command = [sys.executable, "-P", programs.__file__]
    given = json.dumps(request).encode() + b"\n" + b"".join(parts.values())
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            timeout=SECONDS_LIMIT,
            check=False,
            env={**os.environ, **ONE_THREAD},
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramRefused(f"{' or '.join(parts)} takes more than {SECONDS_LIMIT} s to read") from error
    if done.returncode == -getattr(signal, "SIGPROF", 0):
        raise ProgramRefused(f"{' or '.join(parts)} takes more than {READING_SECONDS} s of processor time to read")
    if done.returncode != 0:
        raise ProgramRefused(f"{' or '.join(parts)} is damaged: reading ended with code {done.returncode}")
    line, _, content = done.stdout.partition(b"\n")
    answer = json.loads(line)
    if "refused" in answer:
        raise ProgramRefused(answer["refused"])
    cleaned = {}
    for name, length in zip(parts, answer["lengths"], strict=True):
        cleaned[name], content = content[:length], content[length:]
    return cleaned
