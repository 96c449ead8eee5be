"""The shell blocks of docs/how-to/distributed-studies.md, as they stand, on machines that are namespaces of this one.

There they may take the port and the address that the page names, and `ray stop` ends nobody else's cluster.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import pages
import toy_study
from coverset.study.ray.cluster import CLUSTER_LOST, QUIET
from toy_study import results

NAMESPACES = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
NETWORK = """
ip link set lo up
ip address add 10.0.0.5/24 dev lo
ip route add default dev lo src 10.0.0.5
"""
"""The address of the page's first machine, which is the only one here."""

SLURM = """
export SLURM_JOB_NODELIST=machine-[1-2] SLURM_JOB_NUM_NODES=2 SLURM_JOB_ID=20001 SLURM_CPUS_PER_TASK=1
env --default-signal=INT bash job.sh & job=$!
"""
"""What Slurm tells a job's first shell, which it does not start as one that ignores interrupts."""
IN_THE_MIDDLE = """
until [ -s out/matrix-brdiv-fast/seed-0/metrics.jsonl ]; do kill -0 $job; sleep 0.1; done
"""

SUBMISSIONS = 3
RAY_GAVE_UP = "timed out during startup"

PROGRAMS = Path(sys.executable).parent
SMALL = ["matrix", "--methods", "brdiv", "--seeds", "0", *toy_study.words(generation={"total_steps": 2000 * 80})]


def isolated() -> bool:
    """Whether this machine lets us make such machines."""
    if not all(shutil.which(program) for program in ("unshare", "ip", "pgrep")):
        return False
    return subprocess.run([*NAMESPACES, "bash", "-ec", NETWORK], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not isolated(), reason="needs namespaces, by the programs unshare, ip and pgrep"),
]


def shell_block(naming: str) -> str:
    """The one block of the page that names something."""
    page = (pages.ROOT / "docs" / "how-to" / "distributed-studies.md").read_text()
    (text,) = (block.text for block in pages.blocks(page) if block.kind == "sh" and naming in block.text)
    return text


def stand_in(home: Path, program: str, body: str) -> None:
    """A program that machines find before any other of its name."""
    place = home / "bin" / program
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/bash\n{body}\n")
    place.chmod(0o755)


def slurm(home: Path) -> None:
    """Slurm's programs, for a job whose machines are all this one, and what its script expects at home."""
    stand_in(home, "scontrol", '[ "$*" = "show hostnames $SLURM_JOB_NODELIST" ] && echo machine-1 && echo machine-2')
    stand_in(home, "srun", 'while [[ "$1" == --* ]]; do shift; done; exec "$@"')
    stand_in(home, "hostname", "echo 10.0.0.5")
    activate = home / "coverset" / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.touch()
    (home / "job.sh").write_text(shell_block("#SBATCH"))


def on_a_machine(script: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a script on a machine of its own, where `coverset` makes any study the small one, and puts it into `out`."""
    stand_in(home, "coverset", f'exec {PROGRAMS}/coverset "$@" {shlex.join(SMALL)} --out {home}/out')
    path = os.pathsep.join([str(home / "bin"), str(PROGRAMS), os.environ["PATH"]])
    # Sockets live in Ray's directory, whose paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as short:
        environ = {**os.environ, **QUIET, "PATH": path, "HOME": str(home), "SCRATCH": str(home), "RAY_TMPDIR": short}
        command = [*NAMESPACES, "bash", "-ec", NETWORK + script]
        return subprocess.run(command, cwd=home, env=environ, capture_output=True, text=True, timeout=900, check=False)


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Path:
    """The same study by the local engine."""
    out = tmp_path_factory.mktemp("local")
    subprocess.run([PROGRAMS / "coverset", "reproduce", *SMALL, "--out", out], check=True, capture_output=True)
    assert len([*out.rglob("summary.json")]) == 2
    return out


def test_a_cluster_is_started_joined_used_and_stopped(local: Path, tmp_path: Path) -> None:
    script = shell_block("ray start --head --port") + "! pgrep raylet"
    done = on_a_machine(script, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(tmp_path / "out") == results(local)


def submit(script: str, home: Path, *, code: int) -> None:
    """Run a job that should end with a code; again where Ray gives up, as it does on a busy machine."""
    for _ in range(SUBMISSIONS):
        done = on_a_machine(script, home)
        if done.returncode == code or RAY_GAVE_UP not in done.stderr:
            break
    assert done.returncode == code, done.stdout + done.stderr


def test_a_slurm_job_stops_before_its_time_is_up_and_the_next_one_goes_on(local: Path, tmp_path: Path) -> None:
    slurm(tmp_path)
    submit(f"{SLURM} {IN_THE_MIDDLE} kill -INT $job; wait $job", tmp_path, code=130)
    assert not [*tmp_path.rglob("summary.json")]
    submit(f"{SLURM} wait $job", tmp_path, code=0)
    assert results(tmp_path / "out") == results(local)


def test_a_study_that_loses_its_cluster_says_so_and_can_go_on(local: Path, tmp_path: Path) -> None:
    """Even without the cluster."""
    start, _, study, stop = shell_block("ray start --head --port").splitlines()
    begun = f"{start}\n{study.partition('#')[0]} & job=$!\n{IN_THE_MIDDLE}"
    listened = "wait $job || while pgrep -f [s]tdin.read; do sleep 0.1; done; wait $job"
    lost = on_a_machine(f"{begun}\n{stop}\n{listened}", tmp_path)
    assert (lost.returncode, lost.stderr) == (1, CLUSTER_LOST + "\n")
    assert not [*tmp_path.rglob("summary.json")]
    assert on_a_machine("coverset reproduce", tmp_path).returncode == 0
    assert results(tmp_path / "out") == results(local)
