"""Refused knobs: what they cost, and when they are tried again."""

import errno
from pathlib import Path

import pytest

from slackwater.execution import executor as executor_module
from slackwater.execution.executor import Executor
from slackwater.execution.ledger import FILE, Ledger
from slackwater.execution.refusals import LONGEST, LONGEST_FOR_A_UNIT, MOST_PER_TICK, Refusals
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.knob import BURST, QUOTA, WEIGHT, Knob, KnobKey
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.units import Micros
from tests.unit.execution.desk import POD, one, quota, results
from tests.unit.execution.plain_kernel import PlainKernel

SECOND = 1_000_000
VALUE = quota(2_000)
PODS = 500


def ref(path: str, number: int = 1) -> CgroupRef:
    return CgroupRef(path, number, Level.POD)


def outcome(where: CgroupRef, result: Result, knob: Knob = QUOTA) -> Outcome:
    return Outcome(Change(where, knob, quota(1_000), VALUE), result)


def key(where: CgroupRef, knob: Knob = QUOTA) -> KnobKey:
    return KnobKey(where.id, knob.name)


def waits(refusals: Refusals, where: CgroupRef, since: int) -> int:
    """Whole seconds until it is due; it is at each tick's beginning."""
    return next(
        second
        for second in range(10_000)
        if refusals.due({key(where): VALUE}, Micros(since + second * SECOND))
    )


def test_the_wait_doubles_up_to_five_minutes() -> None:
    refusals, pod, at, seen = Refusals(), ref(POD), 0, []
    for _ in range(12):
        refusals.note([outcome(pod, Result.REFUSED)], Micros(at), {})
        seen.append(waits(refusals, pod, at))
        at += seen[-1] * SECOND
    assert seen == [0, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]
    assert LONGEST == 300 * SECOND


@pytest.mark.parametrize(("times", "due"), [(1, True), (2, True), (4, True), (5, False)])
def test_another_value_is_tried_at_once_a_few_times(times: int, due: bool) -> None:
    refusals, pod = Refusals(), ref(POD)
    for _ in range(times):
        refusals.note([outcome(pod, Result.REFUSED)], Micros(0), {})
    assert bool(refusals.due({key(pod): quota(3_000)}, Micros(SECOND))) is due


def test_what_goes_through_units_waits_for_half_a_minute_at_most() -> None:
    refusals, pod = Refusals(), ref(POD)
    for _ in range(12):
        refusals.note([outcome(pod, Result.REFUSED)], Micros(0), {key(pod): LONGEST_FOR_A_UNIT})
    assert waits(refusals, pod, 0) == 30


@pytest.mark.parametrize("result", [Result.APPLIED, Result.UNCHANGED, Result.VANISHED])
def test_a_knob_that_went_through_starts_anew(result: Result) -> None:
    refusals, pod = Refusals(), ref(POD)
    for each in (Result.REFUSED, Result.REFUSED, result, Result.REFUSED):
        refusals.note([outcome(pod, each)], Micros(0), {})
    assert waits(refusals, pod, 0) == 0


@pytest.mark.parametrize(
    ("applied", "ended"),
    [
        (ref("kubepods"), True),  # above: a parent's quota was in the way
        (ref(f"{POD}/box", 3), True),  # below
        (ref(POD), True),  # beside: a burst above the quota
        (ref("kubepods/pod12", 4), False),
        (ref("kubepods/pod", 5), False),
    ],
)
def test_a_change_near_by_ends_the_wait(applied: CgroupRef, ended: bool) -> None:
    refusals, pod = Refusals(), ref(POD)
    for _ in range(5):
        refusals.note([outcome(pod, Result.REFUSED)], Micros(0), {})
    refusals.note([outcome(applied, Result.APPLIED, BURST)], Micros(0), {})
    assert (waits(refusals, pod, 0) == 0) is ended


def test_a_few_at_a_time_the_longest_due_first() -> None:
    refusals = Refusals()
    pods = [ref(f"kubepods/pod{n}", n) for n in range(10)]
    for number, pod in enumerate(pods):
        for _ in range(2):
            refusals.note([outcome(pod, Result.REFUSED)], Micros(number * SECOND), {})
    found = refusals.due({key(pod): VALUE for pod in pods}, Micros(3600 * SECOND))
    assert found == {key(pods[n]) for n in range(MOST_PER_TICK)}


def test_what_nobody_asks_for_is_forgotten() -> None:
    refusals = Refusals()
    for number in range(100):
        refusals.note([outcome(ref("a", number), Result.REFUSED)], Micros(0), {})
    assert len(refusals) == 100
    refusals.note([outcome(ref("b", 1000), Result.REFUSED)], Micros(3600 * SECOND), {})
    assert len(refusals) == 1


def bare_pod(kernel: PlainKernel, number: int) -> CgroupRef:
    """With nothing but a quota: five hundred whole ones take their time."""
    folder = kernel.root / f"kubepods/pod{number}"
    folder.mkdir(parents=True)
    (folder / "cpu.max").write_text("max 100000\n")
    return CgroupRef(f"kubepods/pod{number}", folder.stat().st_ino, Level.POD)


class Ticks:
    """A clock that stands still within a tick."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> Micros:
        return Micros(self.now * SECOND)


def test_five_hundred_refused_knobs_cost_little(
    kernel: PlainKernel, ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures of the issue, counted: attempts at the kernel's files and bytes of the ledger."""
    clock = Ticks()
    executor = Executor(ledger, kernel.writer(), None, clock)
    changes = [
        Change(bare_pod(kernel, number), QUOTA, quota(1_000), quota(5_000))
        for number in range(PODS)
    ]
    kernel.errors["cpu.max"] = errno.EINVAL
    first = executor.apply(changes)
    assert [each.result for each in first] == [Result.REFUSED] * PODS
    written = 0

    def count(text: bytes) -> None:
        nonlocal written
        written += len(text)
        plain(text)

    plain, tried = ledger._write, list[int]()
    monkeypatch.setattr(ledger, "_write", count)
    clock.now = 1
    executor.apply(changes)  # once more at once: the next plan may be another one
    most = 0
    for tick in range(4, 64):
        clock.now, written, before = tick, 0, len(kernel.log)
        outcomes = executor.apply(changes)
        tried.append(len(outcomes))
        assert len(kernel.log) - before == len(outcomes)
        most = max(most, written)
    assert max(tried) == MOST_PER_TICK
    assert most <= 1024
    assert sum(tried) > 50 * MOST_PER_TICK, "each is tried again, in its turn"
    assert ledger.entries == ()
    assert (folder / FILE).stat().st_size == 0


def test_a_refused_release_waits_too(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 5)
    kernel.errors["cpu.weight"] = errno.EBUSY
    knobs = {(pod.id, "weight")}
    assert results(executor.let_go(knobs)) == [("weight", Result.REFUSED)]
    assert results(executor.let_go(knobs)) == [("weight", Result.REFUSED)]
    assert executor.let_go(knobs) == [], "it waits"
    assert results(executor.release()) == [("weight", Result.REFUSED)], "by hand it does not"
    kernel.errors.clear()
    assert results(executor.release()) == [("weight", Result.APPLIED)]
    assert ledger.entries == ()


def test_knobs_that_cannot_be_written_are_forgotten_with_their_groups(
    executor: Executor, kernel: PlainKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SELinux refuses every write, and pods come and go: no write says that a group is gone."""
    monkeypatch.setattr(executor_module, "_MANY_SHUT", 20)
    executor._sweep_shut_at = 20
    kernel.errors["cpu.max"] = errno.EPERM
    for number in range(60):
        pod = bare_pod(kernel, number)
        assert one(executor, pod, QUOTA, quota(5_000)).result is Result.UNSUPPORTED
        kernel.folder(pod.path).rename(kernel.root / f"gone{number}")  # its inode is not used again
    assert len(executor.off()) <= 20
