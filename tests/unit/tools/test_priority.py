"""Sessions that get more or less of the CPUs, where the kernel has such a thing."""

import subprocess
import time
from pathlib import Path

import pytest

from tools.children import Children
from tools.priority import BEHIND, set_session

GROUPED = Path("/proc/self/autogroup")


def test_a_session_of_ours_can_be_put_behind_others(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start(["sleep", "600"], {}, subprocess.DEVNULL)
    try:
        set_session(child.pid, BEHIND)
        if GROUPED.exists():
            said = Path(f"/proc/{child.pid}/autogroup").read_text()
            assert said.endswith(f"nice {BEHIND}\n")
            assert said.split()[0] != GROUPED.read_text().split()[0]
    finally:
        children.end_all()


@pytest.mark.parametrize("pid", [0, 4_194_305])
def test_where_there_is_no_such_session_nothing_happens(pid: int) -> None:
    began = time.monotonic()
    set_session(pid, BEHIND)
    assert time.monotonic() - began < 5
