"""Slices and scopes of a real systemd: what unit_writer sets lasts, and goes back."""

import os
from collections.abc import Iterator

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.execution.systemd_wire import SystemdWire
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MAX,
    MEMORY_MIN,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.plan import Change, Result
from slackwater.model.unit_property import INFINITY, settled_unit
from slackwater.model.units import UNLIMITED, Bandwidth
from tests.kernel.bed import ROOT, mounts_of
from tests.kernel.hand import clock, executor_of, opened, quota, writer_of
from tests.kernel.test_undoing import in_a_child
from tests.kernel.units import PATIENCE, Node, systemctl

pytestmark = pytest.mark.systemd

DONE = {Result.APPLIED, Result.UNCHANGED}
MOUNTS = mounts_of(CgroupVersion.V2)


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


def units() -> UnitWriter:
    found = UnitWriter.open(writer_of(MOUNTS), clock, timeout=PATIENCE)
    assert isinstance(found, UnitWriter), found
    return found


@pytest.fixture
def ledger(folder: str) -> Iterator[Ledger]:
    made = opened(folder)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def executor(ledger: Ledger) -> Executor:
    return executor_of(MOUNTS, ledger, units())


def to(ref: CgroupRef, knob: Knob, new: KnobValue) -> Change:
    """A change whose direction does not matter."""
    return Change(ref, knob, new, new)


def test_systemd_says_who_it_is() -> None:
    assert units().systemd >= 252


CASES: tuple[tuple[Knob, KnobValue, str, str], ...] = (
    (QUOTA, quota(40_000), "cpu.max", "40000 100000"),
    (QUOTA, quota(41_500), "cpu.max", "42000 100000"),
    (QUOTA, quota(1_000), "cpu.max", "1000 100000"),
    (QUOTA, quota(25_000, 50_000), "cpu.max", "25000 50000"),
    (QUOTA, Bandwidth(UNLIMITED), "cpu.max", "max 100000"),
    (WEIGHT, 50, "cpu.weight", "50"),
    (IDLE, True, "cpu.idle", "1"),
    (CPUS, CpuSet.of([1]), "cpuset.cpus", "1"),
    (MEMORY_MAX, 100_000_001, "memory.max", "99999744"),
    (MEMORY_HIGH, 2**26, "memory.high", str(2**26)),
    (MEMORY_LOW, 2**20, "memory.low", str(2**20)),
    (MEMORY_MIN, 2**20, "memory.min", str(2**20)),
)


@pytest.mark.parametrize(("knob", "value", "file", "text"), CASES)
def test_a_property_reaches_the_kernel_and_survives_a_reload(
    node: Node, knob: Knob, value: KnobValue, file: str, text: str
) -> None:
    writer, pod = units(), node.ref(node.pod)
    assert writer.owns(pod, knob)
    outcome = writer.write(to(pod, knob, value))
    assert (outcome.result, outcome.detail) == (Result.APPLIED, "")
    assert node.text(node.pod, file) == text
    assert writer.write(to(pod, knob, value)).result is Result.UNCHANGED
    assert writer.read(pod, knob) == settled_unit(knob, value)
    systemctl("daemon-reload")
    assert node.text(node.pod, file) == text
    assert writer.write(to(pod, knob, value)).result is Result.UNCHANGED


def test_why_a_file_will_not_do(node: Node) -> None:
    """The same values written into the files are gone after any change of the unit."""
    node.write(node.tier, "cpu.max", "40000 100000")
    node.write(node.tier, "cpu.idle", "1")
    node.set(node.tier, CPUWeight=("t", 2))  # the kubelet's tick
    assert node.text(node.tier, "cpu.max") == "max 100000"
    assert node.text(node.tier, "cpu.idle") == "0"
    node.write(node.tier, "cpu.weight", "50")
    systemctl("daemon-reload")
    assert node.text(node.tier, "cpu.weight") == "2"


def test_why_a_quota_is_whole_percents(node: Node) -> None:
    node.set(node.pod, CPUQuotaPerSecUSec=("t", 415_000))
    assert node.text(node.pod, "cpu.max") == "41500 100000"
    systemctl("daemon-reload")
    assert node.text(node.pod, "cpu.max") == "41000 100000"


def test_a_quota_outlives_the_kubelets_tick(node: Node) -> None:
    writer, tier = units(), node.ref(node.tier, Level.TIER)
    writer.write(to(tier, QUOTA, quota(40_000)))
    node.set(node.tier, CPUWeight=("t", 3))
    assert node.text(node.tier, "cpu.max") == "40000 100000"


def test_a_file_changed_behind_systemds_back_is_set_again(node: Node) -> None:
    writer, pod = units(), node.ref(node.pod)
    writer.write(to(pod, QUOTA, quota(40_000)))
    node.write(node.pod, "cpu.max", "30000 100000")
    assert writer.write(to(pod, QUOTA, quota(40_000))).result is Result.APPLIED
    assert node.text(node.pod, "cpu.max") == "40000 100000"


def test_an_unset_cpuset_has_every_cpu_again(node: Node) -> None:
    """systemd ends the controller with the last property and keeps it for a neighbour; there,
    with processes in the group, the kernel has not let it empty the file."""
    writer, pod, tier = units(), node.ref(node.pod), node.ref(node.tier)
    for ref in (tier, pod):
        assert writer.write(to(ref, CPUS, CpuSet.of([0]))).result is Result.APPLIED
    for ref in (pod, tier):
        assert writer.write(to(ref, CPUS, CpuSet())).result is Result.APPLIED
        file = f"{ROOT}/{ref.path}/cpuset.cpus"
        assert not os.path.exists(file) or node.text(ref.path, "cpuset.cpus") in ("", "0-1")
    assert os.sched_getaffinity(node.process) == {0, 1}


def test_a_value_that_systemd_refuses(node: Node) -> None:
    outcome = units().write(to(node.ref(node.pod), MEMORY_MAX, 0))
    assert outcome.result is Result.REFUSED
    assert "out of range" in outcome.detail


def test_a_value_that_the_kernel_refuses_behind_systemd(node: Node) -> None:
    """systemd only logs what the kernel says; the file tells."""
    node.write(node.pod, "cpu.max.burst", "50000")
    outcome = units().write(to(node.ref(node.pod), QUOTA, quota(20_000)))
    assert outcome.result is Result.REFUSED
    assert "the kernel shows '50000 100000'" in outcome.detail


def test_a_stopped_unit_is_vanished(node: Node) -> None:
    writer, container = units(), node.ref(node.container, Level.CONTAINER)
    node.stop(node.container)
    assert writer.write(to(container, WEIGHT, 50)).result is Result.VANISHED
    assert isinstance(writer.read(container, WEIGHT), Gap)


def test_a_slice_that_systemd_did_not_make_is_left_alone(node: Node) -> None:
    """Asked to set it, systemd would take it over."""
    path = f"{node.tier}/{node.top}-besteffort-stranger.slice"
    os.mkdir(f"{ROOT}/{path}")
    try:
        outcome = units().write(to(node.ref(path), WEIGHT, 50))
        assert outcome.result is Result.REFUSED
        assert "not loaded" in outcome.detail
    finally:
        os.rmdir(f"{ROOT}/{path}")


def test_no_connection_stays_open(node: Node) -> None:
    """systemd queues every signal for every open connection."""
    before = len(os.listdir("/proc/self/fd"))
    writer = units()
    writer.write(to(node.ref(node.pod), WEIGHT, 50))
    assert len(os.listdir("/proc/self/fd")) == before


def test_systemd_may_execute_itself_anew(node: Node) -> None:
    writer, pod = units(), node.ref(node.pod)
    writer.write(to(pod, QUOTA, quota(40_000)))
    systemctl("daemon-reexec")
    assert node.text(node.pod, "cpu.max") == "40000 100000"
    assert writer.write(to(pod, QUOTA, quota(20_000))).result is Result.APPLIED
    assert node.text(node.pod, "cpu.max") == "20000 100000"


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
            executor_of(MOUNTS, opened(folder), units()).apply(plan(node)[1:5])

        finished = in_a_child(act, 0)
        ledger = opened(folder)
        executor = executor_of(MOUNTS, ledger, units())
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
