"""The release at an agent's end: one late answer of systemd leaves nothing behind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.agent.node_writers import (
    release_repeatedly,
)
from slackwater.execution.executor import Executor
from slackwater.execution.systemd_wire import SystemdWire
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.knob import QUOTA
from slackwater.model.plan import Result
from tests.unit.execution.desk import one, opened, quota
from tests.unit.execution.fake_systemd import FakeSystemd
from tests.unit.execution.plain_kernel import Clock, PlainKernel

UNITS = 20


class Seconds:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


@pytest.mark.parametrize(
    ("left", "attempts", "at_last"),
    [([0], 1, 0), ([3, 0], 2, 0), ([9, 8, 7, 0], 4, 0), ([5] * 99, 21, 5)],
)
def test_it_is_tried_again_until_nothing_is_left_or_time_is_over(
    left: list[int], attempts: int, at_last: int
) -> None:
    clock, answers = Seconds(), iter(left)
    made: list[int] = []

    def release() -> int:
        made.append(next(answers))
        return made[-1]

    assert release_repeatedly(release, clock, clock.sleep) == at_last
    assert (len(made), clock.now) == (attempts, attempts - 1.0)


def test_one_late_answer_costs_no_knob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty units; the first question at the end is answered too late, as in a daemon-reload."""
    (tmp_path / "cgroup").mkdir()
    kernel = PlainKernel(tmp_path / "cgroup", CgroupVersion.V2, monkeypatch)
    systemd = FakeSystemd(tmp_path / "private", kernel)
    clock, seconds = Clock(), Seconds()
    ledger = opened(tmp_path / "ledger")
    units = UnitWriter(kernel.writer(), clock, systemd.path, 300.0)
    executor = Executor(ledger, kernel.writer(), units, clock)
    paths = [f"kubepods.slice/kubepods-pod{n}.slice" for n in range(UNITS)]
    for path in paths:
        ref = kernel.make(path)
        systemd.unit(path)
        assert one(executor, ref, QUOTA, quota(5_000)).result is Result.APPLIED
    answer, questions = units._converse_once, [0]

    def late_once(talk: Callable[[SystemdWire], object]) -> object:
        questions[0] += 1
        if questions[0] == 1:
            raise TimeoutError("timed out")
        return answer(talk)

    monkeypatch.setattr(units, "_converse_once", late_once)
    executor.be_patient()

    def release() -> int:
        outcomes = executor.release()
        return sum(each.result is Result.REFUSED for each in outcomes)

    def sleep(pause: float) -> None:
        seconds.sleep(pause)
        clock.now += int(pause * 1_000_000)

    assert release_repeatedly(release, seconds, sleep) == 0
    assert {kernel.text(path, "cpu.max") for path in paths} == {"max 100000"}
    assert ledger.entries == ()
    assert len(seconds.slept) == 1
    ledger.close()
    systemd.close()
