"""Pods that ask for CPUs of their own, on a real kernel: who may run where, tick by tick."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.contract.crane.cpu_policy import CPU_MANAGER
from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.cpus import CpuPolicy, CpuSet, KubeletCpus
from slackwater.observation.survey import TURN
from tests.kernel.bed import Bed, put
from tests.kernel.cpu_threads import EVERY, allowed
from tests.kernel.hand import clock, knob_files, until
from tests.kernel.in_process import Box, InProcess, cpu_inventory, pod_object, set_cpu_manager
from tests.kernel.pods import CONTAINER, UID, limit, make_pod, pod_path, remove_pod
from tests.kernel.running import PATIENCE, Running

V1 = CgroupVersion.V1
CPUSET = CgroupController.CPUSET
NONE, SHARE, EXCLUSIVE = CpuPolicy.NONE, CpuPolicy.SHARE, CpuPolicy.EXCLUSIVE
#: How many CPUs the pod asks for: one of two, or two of eight.
COUNT = max(1, len(EVERY) // 4)
ALONE, BURSTABLE, BATCH, SECOND, MIXED = 1, 2, 3, 4, 5
TIERS = {ALONE: "", SECOND: "", BURSTABLE: "/burstable", BATCH: "/besteffort"}


class PinnedNode:
    """Three pods of real cgroups with a process in each container and sandbox, and an agent whose
    kubelet has no CPU manager."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed = bed
        self.folder = folder
        self.processes: dict[str, int] = {}
        for number in (ALONE, BURSTABLE, BATCH):
            self.start(number)
        for path in (self.pod(ALONE), *self.containers(ALONE)[:1]):
            limit(bed, path, COUNT * 100_000)
        self.agent = InProcess(bed.mounts, bed.kubepods, folder, cpus=cpu_inventory(folder))
        self.agent.settings(corePinning={})
        self.before = self.picture()

    def say(self, policy: str) -> None:
        set_cpu_manager(self.folder, policy)

    def pod(self, number: int) -> str:
        return pod_path(self.bed, number, TIERS[number])

    def containers(self, number: int) -> list[str]:
        return [f"{self.pod(number)}/{CONTAINER.format(100 * number + n)}" for n in range(2)]

    def start(self, number: int) -> None:
        """A container and, second, a sandbox."""
        for path in make_pod(self.bed, number, TIERS[number]):
            self.processes[path] = self.bed.rest(path)

    def stop(self, number: int) -> None:
        for path in self.containers(number):
            self.bed.stop([self.processes.pop(path)])
        remove_pod(self.bed, self.pod(number))

    def document(self, number: int, policy: CpuPolicy | None) -> dict[str, object]:
        """Pods that ask are Guaranteed; the others have neither requests nor limits."""
        size = {"cpu": str(COUNT)} if policy is not None else {}
        annotations = {CPU_MANAGER: policy.value} if policy else {}
        box = Box(CONTAINER.format(100 * number), size, size)
        return pod_object(UID.format(number), [box], annotations, f"pod-{number}")

    def ask(self, policy: CpuPolicy, number: int = ALONE) -> None:
        self.agent.put(f"pod{number}", self.document(number, policy))

    def allowed(self, number: int) -> CpuSet:
        """Of the container."""
        [cpus] = allowed(self.processes[self.containers(number)[0]])
        return cpus

    def others(self, *numbers: int) -> CpuSet:
        """Of everybody but these pods' containers: their sandboxes count."""
        mine = {self.containers(number)[0] for number in numbers}
        masks = [
            cpus.mask
            for path, pid in self.processes.items()
            if path not in mine
            for cpus in allowed(pid)
        ]
        union = 0
        for mask in masks:
            union |= mask
        return CpuSet(union)

    def picture(self) -> dict[str, str]:
        """Every knob; on v2 the CPUs in force, as an empty set cannot be had again."""
        texts: dict[str, str] = {}
        for folder, _, _ in os.walk(self.bed.directory(self.bed.kubepods)):
            path = os.path.relpath(folder, self.bed.directory(""))
            files = knob_files(self.bed, path)
            if self.bed.version is not V1:
                files = {n: t for n, t in files.items() if not n.endswith("cpuset.cpus")}
                files["cpus"] = self.bed.read(path, "cpuset.cpus.effective", CPUSET)
            texts |= {f"{path} {name}": text for name, text in files.items()}
        return texts

    def check(self, policy: CpuPolicy) -> None:
        if policy is NONE:
            assert self.allowed(ALONE) == self.others() == EVERY
            return
        own = self.allowed(ALONE)
        assert len(own) == COUNT
        assert 0 not in own, "it is reserved"
        assert self.others(ALONE) == (EVERY if policy is SHARE else EVERY - own)


@pytest.fixture
def node(bed: Bed, tmp_path: Path) -> Iterator[PinnedNode]:
    made = PinnedNode(bed, tmp_path)
    try:
        yield made
    finally:
        made.agent.close()


def test_every_live_change_within_one_tick(node: PinnedNode) -> None:
    """No restart: the same processes all the way. In the end everything is as it was."""
    for policy in (NONE, SHARE, EXCLUSIVE, NONE, EXCLUSIVE, SHARE, NONE):
        node.ask(policy)
        node.agent.once()
        node.check(policy)
    assert node.picture() == node.before


def test_a_tick_in_which_nothing_changed_writes_nothing(node: PinnedNode) -> None:
    node.ask(EXCLUSIVE)
    node.agent.settle()
    assert [record.outcomes for record in node.agent.rounds(TURN + 1)] == [()] * (TURN + 1)


def test_release_puts_everything_back(node: PinnedNode) -> None:
    node.ask(EXCLUSIVE)
    node.agent.settle()
    assert node.picture() != node.before
    assert node.agent.agent.release(clock(), "released").left == 0
    assert node.picture() == node.before


def test_what_starts_meanwhile_is_caught_within_a_tick(node: PinnedNode) -> None:
    """On v2 whatever starts in a tier, or in a pod, without CPUs of somebody alone is off them from
    its first instruction on; on v1 it copies the set of the group above."""
    node.ask(EXCLUSIVE)
    node.agent.settle()
    own = node.allowed(ALONE)
    late = {
        "in a running pod": f"{node.pod(BURSTABLE)}/{CONTAINER.format(77)}",
        "in a new pod": f"{pod_path(node.bed, 8, '/besteffort')}/{CONTAINER.format(78)}",
        "in a new pod beside it": f"{pod_path(node.bed, 9, '')}/{CONTAINER.format(79)}",
        "in its own pod": f"{node.pod(ALONE)}/{CONTAINER.format(80)}",
    }
    at_once = set()
    for where, path in late.items():
        node.processes[path] = node.bed.rest(node.bed.make(path))
        [cpus] = allowed(node.processes[path])
        at_once |= {where} if not (cpus & own).mask else set()
    assert at_once == (set() if node.bed.version is V1 else {"in a running pod", "in a new pod"})
    node.agent.once()
    assert node.others(ALONE) == EVERY - own
    assert node.allowed(ALONE) == own


def test_in_a_large_tree_too(node: PinnedNode) -> None:
    """There pods are looked at in turns, unless somebody holds CPUs alone. A container that takes
    another one's place leaves its pod's link count as it was."""
    paths = [make_pod(node.bed, number, "/burstable") for number in range(100, 170)]
    node.ask(EXCLUSIVE)
    node.agent.settle()
    own = node.allowed(ALONE)
    for count, (first, second) in enumerate(paths[::10]):
        pod = first.rpartition("/")[0]
        if count % 2:
            node.bed.remove(second)
        late = f"{pod}/{CONTAINER.format(900 + count)}"
        node.processes[late] = node.bed.rest(node.bed.make(late))
        node.agent.once()
        assert node.others(ALONE) == EVERY - own


def test_a_pod_that_goes_gives_its_cpus_back_at_once(node: PinnedNode) -> None:
    node.ask(EXCLUSIVE)
    node.agent.settle()
    node.stop(ALONE)
    node.agent.put(f"pod{ALONE}")
    node.agent.once()
    assert node.others() == EVERY


@pytest.mark.parametrize("kind", ["containers", "initContainers", "sidecar"])
def test_a_container_of_any_kind_by_itself(node: PinnedNode, kind: str) -> None:
    """What the others of its pod ask for does not matter, and an ephemeral one asks for nothing:
    the pod is Burstable, and they are kept off its CPUs."""
    size = {"cpu": str(COUNT)}
    listed = "containers" if kind == "containers" else "initContainers"
    boxes = [
        Box(CONTAINER.format(500), size, size, listed, always=kind == "sidecar"),
        Box(CONTAINER.format(501), {"cpu": "100m"}, {}),
        Box(CONTAINER.format(502), listed="ephemeralContainers"),
    ]
    pod = f"{node.bed.kubepods}/burstable/pod{UID.format(MIXED)}"
    paths = [node.bed.make(f"{pod}/{box.id}") for box in boxes]
    for path in paths:
        node.processes[path] = node.bed.rest(path)
    annotations = {CPU_MANAGER: EXCLUSIVE.value}
    node.agent.put("mixed", pod_object(UID.format(MIXED), boxes, annotations, "mixed"))
    node.agent.once()
    [own] = allowed(node.processes.pop(paths[0]))
    assert len(own) == COUNT
    assert node.others() == EVERY - own


def test_another_pod_takes_no_cpu_of_the_first(node: PinnedNode) -> None:
    """On two CPUs there is none left for it: it runs on what nobody holds alone."""
    node.ask(EXCLUSIVE)
    node.agent.settle()
    first = node.allowed(ALONE)
    node.start(SECOND)
    node.ask(EXCLUSIVE, SECOND)
    node.agent.once()
    second = node.allowed(SECOND)
    assert node.allowed(ALONE) == first
    assert not (first & second).mask
    if len(EVERY) > 2 * COUNT:
        assert len(second) == COUNT
        assert node.others(ALONE, SECOND) == EVERY - first - second
    else:
        assert second == node.others(ALONE) == EVERY - first


def test_somebody_elses_set_is_put_right(node: PinnedNode) -> None:
    """It is noticed when the group is read again, in turn; a container of a pod without claims,
    too."""
    node.ask(EXCLUSIVE)
    node.agent.settle()
    own = node.allowed(ALONE)
    for path in (node.containers(ALONE)[0], node.containers(BURSTABLE)[0]):
        before = node.bed.read(path, "cpuset.cpus", CPUSET)
        wrong = EVERY if before != EVERY.format() else CpuSet.of([0])
        node.bed.write(path, "cpuset.cpus", wrong.format(), CPUSET)
        node.agent.rounds(TURN)
        assert node.allowed(ALONE) == own
        assert node.others(ALONE) == EVERY - own


def test_a_static_kubelet_keeps_its_cpus(node: PinnedNode) -> None:
    node.say("static")
    node.ask(EXCLUSIVE)
    node.agent.once()
    assert node.picture() == node.before
    node.say("none")
    node.agent.once()
    node.check(EXCLUSIVE)
    node.say("static")
    node.agent.once()
    assert node.picture() == node.before, "what we gave is given back"


def test_what_a_static_kubelet_pinned_shows_in_the_cgroup(node: PinnedNode) -> None:
    """An agent in a pod sees the kubelet's configuration, not its state."""
    state = node.folder / "host/var/lib/kubelet/cpu_manager_state"
    state.unlink()
    (state.parent / "config.yaml").write_text("cpuManagerPolicy: static\n")
    given = CpuSet.of(list(EVERY)[-COUNT:])
    node.bed.write(node.containers(ALONE)[0], "cpuset.cpus", given.format(), CPUSET)
    node.ask(EXCLUSIVE)
    snapshot = node.agent.once().snapshot
    assert snapshot.kubelet_cpus == KubeletCpus("static", {UID.format(ALONE): {"c0": given}})
    assert node.allowed(ALONE) == given
    assert node.others(ALONE) == EVERY


def remarks_of(node: PinnedNode) -> list[str]:
    told = node.agent.once().story.told
    return [each.text for line in told for each in line.remarks if line.policy == "core_pinning"]


@pytest.mark.v1
def test_a_container_with_groups_of_its_own_is_refused_with_the_reason(node: PinnedNode) -> None:
    """The kernel takes no set of CPUs that a group below exceeds. Then nobody makes room for it and
    its quota stays; it has its CPUs when they are tried again and the kernel takes them."""
    inner = node.bed.make(f"{node.containers(ALONE)[0]}/inner")
    node.ask(EXCLUSIVE)
    node.agent.rounds(2)
    assert node.picture() == node.before | knob_files_of(node, inner)
    [text] = remarks_of(node)
    assert "CPUs cannot be set here (the kernel refused" in text
    assert "so c0 runs on the CPUs that nobody holds alone" in text
    node.bed.remove(inner)
    run_until_taken(node)
    node.check(EXCLUSIVE)


def run_until_taken(node: PinnedNode) -> None:
    """What the kernel refused is tried again later and later."""
    while remarks_of(node):
        node.agent.once()


def knob_files_of(node: PinnedNode, path: str) -> dict[str, str]:
    return {f"{path} {name}": text for name, text in knob_files(node.bed, path).items()}


@pytest.mark.v1
def test_who_cannot_be_kept_off_is_told_of_the_holder(node: PinnedNode) -> None:
    stuck = node.containers(BURSTABLE)[0]
    inner = node.bed.make(f"{stuck}/inner")
    node.ask(EXCLUSIVE)
    node.agent.rounds(2)
    [text] = remarks_of(node)
    assert text.startswith(f"{stuck} could not be kept off CPUs of c0 (the kernel refused")
    node.bed.remove(inner)
    run_until_taken(node)
    node.check(EXCLUSIVE)


@pytest.mark.v2
def test_a_pod_without_the_controller_is_refused_with_the_reason(node: PinnedNode) -> None:
    """Its containers have no sets: saying that it has CPUs alone would be a lie."""
    node.bed.write(node.pod(ALONE), "cgroup.subtree_control", "-cpuset")
    node.ask(EXCLUSIVE)
    [told] = [each for each in node.agent.once().story.told if each.policy == "core_pinning"]
    [remark] = told.remarks
    assert "CPUs cannot be set here (cpuset.cpus does not exist here)" in remark.text
    assert node.allowed(ALONE) == node.others() == EVERY


@pytest.mark.machine
def test_a_cpu_goes_offline_under_its_pod(node: PinnedNode) -> None:
    node.ask(EXCLUSIVE)
    node.agent.settle()
    own = node.allowed(ALONE)
    gone = max(own)
    switch = f"/sys/devices/system/cpu/cpu{gone}/online"
    left = EVERY - CpuSet.of([gone])
    put(switch, "0")
    try:
        node.agent.once()
        assert node.allowed(ALONE).within(left)
        enough = len(left) > COUNT + 1
        moved = node.allowed(ALONE)
        assert len(moved) == (COUNT if enough else len(left))
        assert node.others(ALONE) == (left - moved if enough else left)
    finally:
        put(switch, "1")
    node.agent.once()
    node.check(EXCLUSIVE)


def test_the_same_cpus_after_a_kill(
    bed: Bed, tmp_path: Path, start: Callable[..., Running]
) -> None:
    """The ledger and the cgroups are all that the next agent has."""
    config = tmp_path / "kubelet.yaml"
    config.write_text("kind: KubeletConfiguration\n")
    node = PinnedNode(bed, tmp_path)
    node.agent.close()
    head = {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings"}
    documents = [
        {**head, "spec": {"corePinning": {"enabled": True}}},
        node.document(ALONE, EXCLUSIVE),
    ]
    (tmp_path / "node" / "settings.yaml").write_text(
        json.dumps({"kind": "List", "items": documents})
    )
    for old in (tmp_path / "node").glob("settings-*.json"):
        old.unlink()
    first = start("--kubelet-config", str(config))
    until(lambda: node.allowed(ALONE) != EVERY, PATIENCE)
    first.await_listening()
    first.await_ticks(2)
    node.check(EXCLUSIVE)
    own = node.allowed(ALONE)
    first.process.send_signal(signal.SIGKILL)
    first.process.communicate()
    second = start("--kubelet-config", str(config))
    second.await_listening()
    second.await_ticks(2)
    assert node.allowed(ALONE) == own
    node.check(EXCLUSIVE)
    second.end(signal.SIGTERM)
    code, _ = second.release()
    assert code == 0
    assert node.picture() == node.before
