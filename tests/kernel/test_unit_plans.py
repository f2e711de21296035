"""Whole plans where a real systemd owns the cgroups: applied, released, killed in between."""

import os
from collections.abc import Iterator

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.execution.systemd_wire import SystemdWire
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
)
from slackwater.model.plan import Change, Result
from slackwater.model.unit_property import INFINITY
from slackwater.model.units import UNLIMITED, Bandwidth
from tests.kernel.hand import DONE, executor_of, in_a_child, opened, quota
from tests.kernel.units import MOUNTS, Node, systemctl, to, unit_writer

pytestmark = pytest.mark.systemd


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("ledger"))


@pytest.fixture
def ledger(folder: str) -> Iterator[Ledger]:
    made = opened(folder)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def executor(ledger: Ledger) -> Executor:
    return executor_of(MOUNTS, ledger, unit_writer())


def plan(node: Node) -> list[Change]:
    tier = node.ref(node.tier, Level.TIER)
    pod, container = node.ref(node.pod), node.ref(node.container, Level.CONTAINER)
    return [
        Change(tier, QUOTA, Bandwidth(UNLIMITED), quota(60_000)),
        Change(tier, WEIGHT, 1, 5),
        Change(pod, QUOTA, quota(50_000), quota(40_000)),
        Change(pod, BURST, 0, 40_000),
        Change(pod, IDLE, False, True),
        Change(container, QUOTA, Bandwidth(UNLIMITED), quota(30_000)),
        Change(container, MEMORY_MAX, 2**27, 2**26),
        Change(container, CPUS, CpuSet(), CpuSet.of([0])),
    ]


def test_each_knob_takes_its_route(node: Node, executor: Executor) -> None:
    pod = node.ref(node.pod)
    unit = f"unit:{pod.name()}"
    routes = {knob.name: executor.route(pod, knob) for knob in (QUOTA, WEIGHT, IDLE, BURST, CPUS)}
    assert routes == {"quota": unit, "weight": unit, "idle": unit, "burst": "file", "cpus": unit}
    plain = CgroupRef("kubepods/besteffort/pod1", 1, Level.POD)
    assert executor.route(plain, QUOTA) == "file"


def test_a_plan_is_applied_and_released_to_the_last_property(
    node: Node, executor: Executor, ledger: Ledger
) -> None:
    before = node.picture()
    assert {o.result for o in executor.apply(plan(node))} == {Result.APPLIED}
    after = node.picture()
    assert after[f"{node.pod}/cpu.idle"] == "1"
    assert after[f"{node.container}/memory.max"] == str(2**26)
    assert {o.result for o in executor.apply(plan(node))} == {Result.UNCHANGED}
    systemctl("daemon-reload")
    assert node.picture() == after
    assert {o.result for o in executor.release()} <= DONE
    assert node.picture() == before
    assert ledger.entries == ()
    systemctl("daemon-reload")
    assert node.picture() == before


def test_a_weight_that_was_never_set_is_unset_again(node: Node, executor: Executor) -> None:
    node.set(node.pod, CPUWeight=("t", INFINITY))
    pod = node.ref(node.pod)
    executor.apply([to(pod, WEIGHT, 50)])
    executor.release()
    assert node.property(pod.name(), "CPUWeight") == INFINITY
    assert node.text(node.pod, "cpu.weight") == "100"


def test_idle_and_back_restores_the_weight(node: Node, executor: Executor) -> None:
    pod = node.ref(node.pod)
    for goal in (True, False):
        outcomes = executor.apply([Change(pod, IDLE, not goal, goal)])
        assert {o.result for o in outcomes} == {Result.APPLIED}
    assert node.text(node.pod, "cpu.weight") == "10"
    assert node.property(pod.name(), "CPUWeight") == 10


def test_what_the_kernel_refuses_does_not_stay_in_the_unit(
    node: Node, executor: Executor, ledger: Ledger
) -> None:
    """A burst above the quota to come: systemd takes it, the kernel does not."""
    pod = node.ref(node.pod)
    executor.apply([to(pod, BURST, 50_000)])
    (outcome,) = executor.apply([to(pod, QUOTA, quota(20_000))])
    assert outcome.result is Result.REFUSED
    assert node.property(pod.name(), "CPUQuotaPerSecUSec") == 500_000
    assert [e.knob for e in ledger.entries] == ["burst"]
    executor.release()
    systemctl("daemon-reload")
    assert node.text(node.pod, "cpu.max") == "50000 100000"


def test_each_idle_ends_in_the_weight_before_it(
    node: Node, executor: Executor, ledger: Ledger
) -> None:
    pod = node.ref(node.pod)
    for weight in (10, 50):
        node.set(node.pod, CPUWeight=("t", weight))
        for goal in (True, False):
            executor.apply([Change(pod, IDLE, not goal, goal)])
        assert node.property(pod.name(), "CPUWeight") == weight
        assert ledger.entries == ()


def test_a_property_that_somebody_else_set_is_left(
    node: Node, executor: Executor, ledger: Ledger
) -> None:
    pod = node.ref(node.pod)
    executor.apply([to(pod, QUOTA, quota(20_000))])
    node.set(node.pod, CPUQuotaPerSecUSec=("t", 700_000))
    (outcome,) = executor.release()
    assert outcome.detail.startswith("left: somebody else wrote")
    assert node.text(node.pod, "cpu.max") == "70000 100000"
    assert ledger.entries == ()


def test_a_file_that_was_written_past_systemd_comes_back_too(
    node: Node, executor: Executor, ledger: Ledger
) -> None:
    """A runtime may write a cpuset that its unit does not know."""
    container = node.ref(node.container, Level.CONTAINER)
    node.set(node.container, AllowedCPUs=("ay", b"\x01"))
    node.write(node.container, "cpuset.cpus", "0-1")
    executor.apply([to(container, CPUS, CpuSet.of([1]))])
    assert node.text(node.container, "cpuset.cpus") == "1"
    assert {o.result for o in executor.release()} <= DONE
    assert node.text(node.container, "cpuset.cpus") == "0-1"
    assert node.property(container.name(), "AllowedCPUs")[0] == 1
    assert ledger.entries == ()


def test_killed_between_any_two_steps_then_released(node: Node, folder: str) -> None:
    before = node.picture()
    step, finished = 0, False
    while not finished:
        step += 1

        def act(step: int = step) -> None:
            _kill_before(step)
            executor_of(MOUNTS, opened(folder), unit_writer()).apply(plan(node)[1:5])

        finished = in_a_child(act, 0)
        ledger = opened(folder)
        executor = executor_of(MOUNTS, ledger, unit_writer())
        executor.adopt()
        assert {o.result for o in executor.release()} <= DONE
        assert node.picture() == before, f"killed before step {step}"
        assert ledger.entries == ()
        ledger.close()
    assert step > 8


def _kill_before(step: int) -> None:
    """Before the nth call that sets properties, or the nth write of the ledger's."""
    left = [step]
    manager, write = SystemdWire.manager, os.write

    def count() -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), 9)

    def counted_manager(
        self: SystemdWire, member: str, signature: str, *body: object
    ) -> tuple[object, ...]:
        if member == "SetUnitProperties":
            count()
        return manager(self, member, signature, *body)

    def counted_write(descriptor: int, data: bytes) -> int:
        count()
        return write(descriptor, data)

    SystemdWire.manager = counted_manager  # type: ignore[method-assign]
    os.write = counted_write  # type: ignore[assignment]
