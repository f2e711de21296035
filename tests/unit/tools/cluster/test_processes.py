"""Programs of a cluster: started once, ended by their own number, told with their last words."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.cluster.processes import Processes, wait_for
from tools.provision import ROOT

SLEEP = ("sleep", "600")
DEAF = ("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
#: Starts a program and waits to be killed.
PARENT = """
import sys, time
from pathlib import Path
from tools.cluster.processes import Processes
made = Processes(Path(sys.argv[1]))
made.start("sleep", ["sleep", "600"])
print(made.pid("sleep"), flush=True)
time.sleep(600)
"""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path / "logs")
    yield made
    made.kill_all()


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie that nobody has asked for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_runs_until_it_is_stopped(processes: Processes) -> None:
    processes.start("sleep", SLEEP)
    pid = processes.pid("sleep")
    assert processes.is_running("sleep")
    processes.stop("sleep")
    assert not processes.is_running("sleep")
    assert not is_alive(pid)


def test_a_deaf_program_is_killed(processes: Processes) -> None:
    processes.start("deaf", DEAF)
    log = processes.log("deaf")
    wait_for("its word", lambda: log.read_text() == "deaf\n")
    pid = processes.pid("deaf")
    processes.stop("deaf", patience=0.2)
    assert not is_alive(pid)


def test_a_persons_proxy_is_not_the_clusters(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("KEPT", "yes")
    processes.start("env", ["env"])
    log = processes.log("env")
    wait_for("its words", lambda: "KEPT=yes" in log.read_text() and not processes.is_running("env"))
    assert "_proxy=" not in log.read_text().lower()


def test_no_program_outlives_its_starter(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        os.kill(parent.pid, signal.SIGKILL)
    wait_for("the program's end", lambda: not is_alive(pid))
