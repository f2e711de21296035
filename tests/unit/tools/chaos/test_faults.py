"""Which processes the cluster's chaos may touch."""

from pathlib import Path

import pytest

from tools.chaos.faults import programs_in, runs


def process(proc: Path, pid: int, *words: str) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_bytes("".join(f"{word}\0" for word in words).encode())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("/usr/bin/python3", "/usr/local/bin/slackwater", "agent", "--node", "x"), True),
        (("slackwater", "agent"), True),
        (("/usr/bin/python3", "-m", "slackwater", "agent"), True),
        (("slackwater", "manager"), False),
        (("slackwater",), False),
        (("sh", "-c", "slackwater agent"), False),
        (("vi", "agent"), False),
        ((), False),
    ],
)
def test_a_program_is_known_by_its_command(
    tmp_path: Path, words: tuple[str, ...], found: bool
) -> None:
    process(tmp_path, 7, *words)
    assert runs(tmp_path / "7", "agent") is found


def test_only_processes_of_the_nodes_own_groups_are_touched(tmp_path: Path) -> None:
    proc, top = tmp_path / "proc", tmp_path / "kubepods"
    for pid in (5, 6, 7):
        process(proc, pid, "slackwater", "agent")
    process(proc, 8, "slackwater", "manager")
    for name, pids in (("pod-a/x", "6\n8\n"), ("pod-b/y", "5\n99\n")):
        (top / name).mkdir(parents=True)
        (top / name / "cgroup.procs").write_text(pids)
    assert list(programs_in(top, "agent", proc)) == [6, 5]
    assert list(programs_in(top, "manager", proc)) == [8]
    assert list(programs_in(tmp_path / "nowhere", "agent", proc)) == []


def test_a_process_that_is_gone_is_none(tmp_path: Path) -> None:
    assert not runs(tmp_path / "7", "agent")
