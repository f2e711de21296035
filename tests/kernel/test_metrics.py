"""Metrics of real pods on real cgroups: the values that the kernel's own files have, and labels."""

import ctypes
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping

import msgspec
import pytest

from slackwater.contract.crane.metrics import METRICS, needs_of_metrics
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, MetricRequest, Samples
from slackwater.model.needs import TIERS, merge_needs
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.weight import Shares, WeightFormula, weight_of
from slackwater.observation.cgroups.tree import CgroupTree
from slackwater.observation.host import NodeUsageMeter, Roots
from slackwater.observation.metrics.collector import MetricCollector, node_families
from slackwater.observation.rates import SHORTEST
from slackwater.observation.survey import SnapshotInputs, Surveyor
from tests.kernel.bed import Bed, _fork_loop, put
from tests.kernel.hand import clock, despite_neighbours, until
from tests.kernel.pods import CONTAINER, UID, limit, make_pod, open_descriptors, pod_path

WINDOW = 3.0
MIB = 2**20
_CLONE_NEWPID = 0x20000000
CONTAINER_METRICS = [name for name in METRICS if name.startswith("container")]
_KEPT: list[bytearray] = []


def pod_object(number: int, *names: str, **annotations: str) -> Pod:
    """As the API server has it: the containers of make_pod, by their ids."""
    ids = [f"containerd://{CONTAINER.format(100 * number + n)}" for n in range(len(names))]
    listed = [
        {"name": name, "resources": {"limits": {"gocrane.io/cpu": 1}} if name == "batch" else {}}
        for name in names
    ]
    statuses = [{"name": name, "containerID": each} for name, each in zip(names, ids, strict=True)]
    document = {
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "shop",
            "uid": UID.format(number),
            "annotations": {"kubernetes.io/config.source": annotations.get("source", "api")},
        },
        "spec": {"containers": listed},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }
    return read_pod(document, "a test")


class Look:
    """A surveyor whose ticks the test calls."""

    def __init__(self, bed: Bed, pods: tuple[Pod, ...]) -> None:
        families = node_families(Roots(), bed.mounts)
        self._surveyor = Surveyor(
            CgroupTree(bed.mounts, bed.kubepods),
            NodeUsageMeter(bed.mounts, Roots()),
            MetricCollector(families),
        )
        self._known = SnapshotInputs(allocatable=MilliCpu(2000), pods=pods)
        self._ticks = itertools.count(1)
        self._looked = Micros(clock() - SHORTEST)

    def __call__(self, *names: str) -> dict[str, Samples | Gap]:
        """As far from the one before as a rate needs."""
        asked = [MetricRequest(MetricKey(name)) for name in names]
        needs = merge_needs((TIERS, needs_of_metrics(asked)))
        known = msgspec.structs.replace(self._known, needs=needs)
        until(lambda: clock() - self._looked >= SHORTEST, pause=0.005)
        self._looked = clock()
        found = self._surveyor.close_snapshot(next(self._ticks), self._looked, known)
        assert isinstance(found, NodeSnapshot), found
        return found.metrics

    def values(self, name: str) -> dict[str, float]:
        """By the container's name; the pod's own is the empty one."""
        return by_container(self(name)[name])

    def close(self) -> None:
        self._surveyor.close()


def by_container(found: Samples | Gap) -> dict[str, float]:
    assert not isinstance(found, Gap), found
    return {each.labels["ContainerName"]: each.value for each in found}


@pytest.fixture
def look_at(bed: Bed) -> Iterator[Callable[..., Look]]:
    made: list[Look] = []

    def look(*pods: Pod) -> Look:
        made.append(Look(bed, pods))
        return made[-1]

    yield look
    for each in made:
        each.close()


def test_usage_of_pod_and_containers(bed: Bed, look_at: Callable[..., Look]) -> None:
    busy, idle = make_pod(bed, 1)
    bed.go_first()
    limit(bed, busy, 20_000)
    bed.burn(busy)
    look = look_at(pod_object(1, "app", "batch"))
    name, elastic = "container_cpu_total_usage", "ext_res_container_cpu_total_usage"
    assert all(isinstance(each, Gap) for each in look(name, elastic).values())

    def judge() -> None:
        time.sleep(WINDOW)
        found = look(name, elastic)
        usage = by_container(found[name])
        assert usage == {
            "": pytest.approx(0.2, rel=0.05),
            "app": pytest.approx(0.2, rel=0.05),
            "batch": 0,
        }
        total = found[elastic]
        assert not isinstance(total, Gap)
        assert [(each.value, each.labels) for each in total] == [(0, {})]

    despite_neighbours(judge)
    assert bed.usage(idle) == 0


def test_labels_of_every_container_metric(bed: Bed, look_at: Callable[..., Look]) -> None:
    """Static pods have theirs, too."""
    make_pod(bed, 1)
    make_pod(bed, 2, tier="", containers=1)
    look = look_at(pod_object(1, "app", "batch"), pod_object(2, "etcd", source="file"))
    look(*CONTAINER_METRICS)
    found = look(*CONTAINER_METRICS)
    assert found.keys() == set(CONTAINER_METRICS)
    expected = [
        labels(1, "", "", "true"),
        labels(1, "app", CONTAINER.format(100), "false"),
        labels(1, "batch", CONTAINER.format(101), "true"),
        labels(2, "", "", "false"),
        labels(2, "etcd", CONTAINER.format(200), "false"),
    ]
    for name, series in found.items():
        assert not isinstance(series, Gap), (name, series)
        assert [dict(each.labels) for each in series] == expected, name


def labels(number: int, container: str, identity: str, elastic: str) -> dict[str, str]:
    return {
        "PodName": f"pod-{number}",
        "PodNamespace": "shop",
        "PodUid": UID.format(number),
        "ContainerName": container,
        "ContainerId": identity,
        "HasExtRes": elastic,
    }


def test_quota_period_and_shares(bed: Bed, look_at: Callable[..., Look]) -> None:
    first, _ = make_pod(bed, 1)
    pod = pod_path(bed, 1)
    limit(bed, pod, 90_000)
    if bed.version is CgroupVersion.V1:
        bed.write(first, "cpu.cfs_period_us", "50000")
        bed.write(first, "cpu.cfs_quota_us", "25000")
        for path, shares in ((pod, "1024"), (first, "512")):
            bed.write(path, "cpu.shares", shares)
    else:
        bed.write(first, "cpu.max", "25000 50000")
        for path, weight in ((pod, "39"), (first, "20")):
            bed.write(path, "cpu.weight", weight)
    look = look_at(pod_object(1, "app", "batch"))
    assert look.values("container_cpu_quota") == {"": 90_000, "app": 25_000, "batch": -1}
    assert look.values("container_cpu_period") == {"": 100_000, "app": 50_000, "batch": 100_000}
    shares_seen = look.values("container_cpu_limit")
    if bed.version is CgroupVersion.V1:
        assert shares_seen == {"": 1024, "app": 512, "batch": 1024}
    else:
        back = {n: weight_of(Shares(int(s)), WeightFormula.LINEAR) for n, s in shares_seen.items()}
        assert back == {"": 39, "app": 20, "batch": 100}


def test_a_working_set_is_that_of_the_files(bed: Bed, look_at: Callable[..., Look]) -> None:
    app, _ = make_pod(bed, 1)
    hold(bed, app, 48 * MIB)
    look = look_at(pod_object(1, "app", "batch"))
    name = "container_mem_total_usage"
    paths = {"": pod_path(bed, 1), "app": app}

    def is_near(found: Mapping[str, float]) -> bool:
        """The process may still grow between the two looks at it."""
        return all(abs(found[each] - working_set(bed, path)) <= MIB for each, path in paths.items())

    while not ((found := look.values(name))["app"] >= 48 * MIB and is_near(found)):
        time.sleep(0.05)
    assert found[""] >= 48 * MIB
    assert found["batch"] < MIB


def hold(bed: Bed, path: str, size: int) -> None:
    """A process in the group with so much memory, which it has written to."""
    directories = sorted({bed.directory(path, c) for c in CgroupController})

    def enter_and_fill() -> None:
        for directory in directories:
            put(f"{directory}/cgroup.procs", "0")
        _KEPT.append(bytearray(os.urandom(MIB)) * (size // MIB))
        os.nice(19)

    bed._pids.append(_fork_loop(enter_and_fill))


def working_set(bed: Bed, path: str) -> int:
    """By hand, as the kubelet counts it."""
    v1 = bed.version is CgroupVersion.V1
    usage = "memory.usage_in_bytes" if v1 else "memory.current"
    stat = bed.read(path, "memory.stat", CgroupController.MEMORY).split()
    inactive = stat[stat.index("total_inactive_file" if v1 else "inactive_file") + 1]
    return int(bed.read(path, usage, CgroupController.MEMORY)) - int(inactive)


def test_two_loops_on_one_cpu_wait_for_each_other(bed: Bed, look_at: Callable[..., Look]) -> None:
    app, _ = make_pod(bed, 1)
    bed.write(app, "cpuset.cpus", "0", CgroupController.CPUSET)
    bed.burn(app, 2)
    look = look_at(pod_object(1, "app", "batch"))
    name = "container_sched_run_queue_time"
    assert isinstance(look(name)[name], Gap)
    time.sleep(WINDOW)
    found = look.values(name)
    # Microseconds per second: one of them waits at all times, and both where neighbours run.
    assert 0.8e6 <= found["app"] <= 2.1e6
    assert found[""] == found["app"]
    assert found["batch"] == 0


def test_waiting_tasks_are_found_from_another_pid_namespace(
    bed: Bed, look_at: Callable[..., Look]
) -> None:
    """As an agent in a pod has one: there the cgroup's own list of tasks is empty."""
    app, _ = make_pod(bed, 1)
    bed.write(app, "cpuset.cpus", "0", CgroupController.CPUSET)
    bed.burn(app, 2)
    name = "container_sched_run_queue_time"

    def measure() -> dict[str, float]:
        look = look_at(pod_object(1, "app", "batch"))
        look(name)
        time.sleep(WINDOW)
        return look.values(name)

    found = in_another_pid_namespace(measure)
    assert 0.8e6 <= found["app"] <= 2.1e6
    assert found[""] == found["app"]
    assert found["batch"] == 0


def in_another_pid_namespace(measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """unshare(2) is for children: the first one calls it, and the second one is inside."""
    read_end, write_end = os.pipe()
    outer = os.fork()
    if not outer:
        try:
            assert not ctypes.CDLL(None).unshare(_CLONE_NEWPID)
            inner = os.fork()
            if not inner:
                assert os.getpid() == 1
                os.write(write_end, msgspec.json.encode(measure()))
            else:
                os.waitpid(inner, 0)
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        text = answer.read()
    os.waitpid(outer, 0)
    return msgspec.json.decode(text, type=dict[str, float])


def test_a_container_that_goes_takes_its_series_along(
    bed: Bed, look_at: Callable[..., Look]
) -> None:
    _, second = make_pod(bed, 1)
    look = look_at(pod_object(1, "app", "batch"))
    look(*CONTAINER_METRICS)
    bed.remove(second)
    look(*CONTAINER_METRICS)
    found = look(*CONTAINER_METRICS)
    for name, series in found.items():
        assert set(by_container(series)) == {"", "app"}, name


def test_descriptors_are_held_only_for_what_is_asked(
    bed: Bed, look_at: Callable[..., Look]
) -> None:
    make_pod(bed, 1)
    look = look_at(pod_object(1, "app", "batch"))
    look()
    before = open_descriptors()
    look("container_mem_total_usage")
    assert open_descriptors() == before + 6  # two files of a pod and its two containers
    look("container_sched_run_queue_time")
    assert open_descriptors() == before
    look("container_mem_total_usage")
    look()
    assert open_descriptors() == before
