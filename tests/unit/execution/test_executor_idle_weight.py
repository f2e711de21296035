"""The weight that idle hides and costs: which one comes back, and when."""

import errno
from collections.abc import Callable

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupRef
from slackwater.model.knob import IDLE, WEIGHT
from slackwater.model.plan import FILE_ROUTE, Change, Outcome, Ownership, Result
from tests.unit.execution.desk import (
    POD,
    SLICE,
    adopted,
    killed_before,
    one,
    results,
)
from tests.unit.execution.fake_systemd import FakeSystemd
from tests.unit.execution.plain_kernel import PlainKernel


def test_killed_between_the_end_of_idle_and_the_weight(
    executor: Executor,
    ledger: Ledger,
    kernel: PlainKernel,
    pod: CgroupRef,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weight = kernel.folder(POD) / "cpu.weight"
    off = [Change(pod, IDLE, True, False)]
    ends: tuple[Callable[[], list[Outcome]], ...] = (
        lambda: executor.apply(off),
        executor.release,
    )
    for act in ends:
        weight.write_text("300\n")
        one(executor, pod, IDLE, True)
        killed_before(2, monkeypatch, act)
        assert kernel.text(POD, "cpu.weight") == "100"
        assert adopted(executor)["weight"] is Ownership.OURS
        assert results(executor.apply(off))[-1] == ("weight", Result.APPLIED), "it is finished"
        assert kernel.text(POD, "cpu.weight") == "300"
        assert ledger.entries == ()
        one(executor, pod, IDLE, True)
        killed_before(2, monkeypatch, act)
        executor.release()
        assert kernel.text(POD, "cpu.weight") == "300"
        assert ledger.entries == ()


def test_a_weight_that_is_refused_after_idle_is_not_forgotten(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    (kernel.folder(POD) / "cpu.weight").write_text("300\n")
    one(executor, pod, IDLE, True)
    kernel.errors["cpu.weight"] = errno.EBUSY
    ends: tuple[Callable[[], list[Outcome]], ...] = (
        lambda: executor.apply([Change(pod, IDLE, True, False)]),
        executor.release,
    )
    for act in ends:
        assert ("weight", Result.REFUSED) in results(act())
        assert {e.knob for e in ledger.entries} == {"idle", "weight"}
    kernel.errors.clear()
    executor.release()
    assert kernel.text(POD, "cpu.weight") == "300"
    assert ledger.entries == ()


def test_the_weight_after_idle_is_the_one_before_it(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    """Each time: between two idles the weight is the kubelet's, even the kernel's default."""
    for weight in ("200", "500", "100", "79"):
        (kernel.folder(POD) / "cpu.weight").write_text(f"{weight}\n")
        one(executor, pod, IDLE, True)
        executor.apply([Change(pod, IDLE, True, False)])
        assert kernel.text(POD, "cpu.weight") == weight
        assert ledger.entries == (), "nothing is ours any more"


def test_idle_that_does_not_end_costs_no_weight(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 300)
    (kernel.folder(POD) / "cpu.weight").write_text("700\n")
    assert results(executor.apply([Change(pod, IDLE, False, False)])) == [
        ("idle", Result.UNCHANGED)
    ]
    assert kernel.text(POD, "cpu.weight") == "700"


def test_a_weight_of_ours_that_somebody_changed_before_idle(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    one(executor, pod, WEIGHT, 7)
    (kernel.folder(POD) / "cpu.weight").write_text("500\n")
    one(executor, pod, IDLE, True)
    executor.release()
    assert kernel.text(POD, "cpu.weight") == "500"


@pytest.mark.parametrize("asked", [False, True])
def test_a_weight_under_somebody_elses_idle_waits_for_its_end(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef, asked: bool
) -> None:
    """It is released or asked for while it is hidden, and found at the kernel's default."""
    (kernel.folder(POD) / "cpu.weight").write_text("300\n")
    one(executor, pod, WEIGHT, 7)
    (kernel.folder(POD) / "cpu.idle").write_text("1\n")
    (kernel.folder(POD) / "cpu.weight").write_text("0\n")
    if asked:
        one(executor, pod, WEIGHT, 8)
    else:
        (outcome,) = executor.release()
        assert outcome.result is Result.REFUSED
        assert "idle" in outcome.detail
    assert ledger.find(pod.id, "weight", FILE_ROUTE) is not None
    (kernel.folder(POD) / "cpu.idle").write_text("0\n")
    (kernel.folder(POD) / "cpu.weight").write_text("100\n")
    assert results(executor.release()) == [("weight", Result.APPLIED)]
    assert kernel.text(POD, "cpu.weight") == "300"


def test_a_units_weight_after_idle_is_the_one_before_it(
    with_units: Executor, ledger: Ledger, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    for weight in (79, 500):
        systemd.unit(SLICE, CPUWeight=("t", weight))
        one(with_units, slice_, IDLE, True)
        with_units.apply([Change(slice_, IDLE, True, False)])
        assert systemd.units[slice_.name()]["CPUWeight"] == ("t", weight)
        assert ledger.entries == ()


def test_where_idle_is_let_go_and_the_weight_is_not_it_follows_at_once(
    executor: Executor, ledger: Ledger, kernel: PlainKernel, pod: CgroupRef
) -> None:
    (kernel.folder(POD) / "cpu.weight").write_text("300\n")
    one(executor, pod, WEIGHT, 7)
    one(executor, pod, IDLE, True)
    outcomes = executor.let_go({(pod.id, "idle")})
    assert results(outcomes) == [("idle", Result.APPLIED), ("weight", Result.APPLIED)]
    assert kernel.text(POD, "cpu.weight") == "7"
    assert [entry.knob for entry in ledger.entries] == ["weight"]
    assert results(executor.let_go({(pod.id, "weight")})) == [("weight", Result.APPLIED)]
    assert kernel.text(POD, "cpu.weight") == "300"
    assert ledger.entries == ()


@pytest.mark.parametrize("knobs", [("idle",), ("idle", "weight")])
def test_idle_that_is_let_go_without_a_weight_of_ours(
    executor: Executor,
    ledger: Ledger,
    kernel: PlainKernel,
    pod: CgroupRef,
    knobs: tuple[str, ...],
) -> None:
    """The weight that was only kept for it goes along."""
    (kernel.folder(POD) / "cpu.weight").write_text("300\n")
    one(executor, pod, IDLE, True)
    outcomes = executor.let_go({(pod.id, knob) for knob in knobs})
    assert {result for _, result in results(outcomes)} == {Result.APPLIED}
    assert kernel.text(POD, "cpu.weight") == "300"
    assert ledger.entries == ()


def test_a_units_idle_is_let_go_and_its_weight_is_not(
    with_units: Executor, ledger: Ledger, slice_: CgroupRef, systemd: FakeSystemd
) -> None:
    systemd.unit(SLICE, CPUWeight=("t", 79))
    one(with_units, slice_, WEIGHT, 7)
    one(with_units, slice_, IDLE, True)
    with_units.let_go({(slice_.id, "idle")})
    assert systemd.units[slice_.name()]["CPUWeight"] == ("t", 7)
    with_units.let_go({(slice_.id, "weight")})
    assert systemd.units[slice_.name()]["CPUWeight"] == ("t", 79)
    assert ledger.entries == ()


def test_the_journal_is_told_what_the_file_held(
    executor: Executor, kernel: PlainKernel, pod: CgroupRef
) -> None:
    """An idle group shows another weight than the one that it gets back."""
    weight = kernel.folder(POD) / "cpu.weight"
    weight.write_text("300\n")
    one(executor, pod, IDLE, True)
    weight.write_text("1\n")
    outcomes = executor.apply([Change(pod, IDLE, True, False)])
    [change] = [each.change for each in outcomes if each.change.knob == WEIGHT]
    assert (change.old, change.new) == (1, 300)
