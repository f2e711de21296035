"""One agent for each kubelet's tree, whatever their state folders."""

import os
from pathlib import Path

from slackwater.execution.folder_lock import Taken, lock_directory
from slackwater.model.gap import Gap


def test_of_two_agents_one_is_refused(tmp_path: Path) -> None:
    first = lock_directory(str(tmp_path))
    assert isinstance(first, int)
    second = lock_directory(str(tmp_path))
    assert isinstance(second, Taken)
    assert second.reason == f"another agent works on {tmp_path}; one agent per node"
    os.close(first)
    third = lock_directory(str(tmp_path))
    assert isinstance(third, int), "it goes with its process"
    os.close(third)


def test_what_is_not_there_is_a_gap(tmp_path: Path) -> None:
    found = lock_directory(str(tmp_path / "none"))
    assert isinstance(found, Gap)
    assert not isinstance(found, Taken)


def test_a_refusal_leaves_no_descriptor(tmp_path: Path) -> None:
    first = lock_directory(str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    lock_directory(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
    assert isinstance(first, int)
    os.close(first)
