"""Discovery and reading on plain directories: names, levels, what is listed, every bad file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.model.cgroup import (
    CgroupMounts,
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    Controller,
    CpuTimes,
    Level,
    Mount,
    Tier,
)
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from slackwater.observation.cgroup_reader import NOT_ASKED, Field
from slackwater.observation.cgroup_tree import CgroupTree, Depth, Scan
from tests.unit.observation.descriptors import descriptor_limit, open_descriptors
from tests.unit.observation.plain_tree import CONTAINER, UID, PlainTree

EVERYTHING = frozenset(Field)
AT = Micros(5)


@pytest.fixture(params=list(CgroupVersion), ids=lambda version: version.value)
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> PlainTree:
    return PlainTree(tmp_path, request.param)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that were listed, by name."""
    names: list[str] = []
    scandir = os.scandir

    def noting(fd: Any) -> Any:
        names.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        return scandir(fd)

    monkeypatch.setattr(os, "scandir", noting)
    return names


def pods(plain: PlainTree, top: str = "kubepods") -> list[str]:
    """A pod of two containers in each tier."""
    made = []
    for number, tier in enumerate(("", "/burstable", "/besteffort")):
        pod = f"{top}{tier}/pod{UID.format(number)}"
        made += [plain.make(f"{pod}/{CONTAINER.format(10 * number + n)}") for n in range(2)]
    return made


def by_path(scan: Scan) -> dict[str, CgroupRef]:
    return {ref.path: ref for ref in scan.refs}


def test_every_level_is_found(plain: PlainTree) -> None:
    pods(plain)
    found = CgroupTree(plain.mounts, "kubepods").scan()
    levels = [ref.level for ref in found.refs]
    assert [levels.count(level) for level in Level] == [1, 2, 3, 6]
    assert levels.index(Level.POD) < levels.index(Level.CONTAINER)
    assert found.unread == ()
    burstable = by_path(found)[f"kubepods/burstable/pod{UID.format(1)}/{CONTAINER.format(11)}"]
    assert burstable == CgroupRef(
        burstable.path,
        os.stat(plain.directory(burstable.path)).st_ino,
        Level.CONTAINER,
        Tier.BURSTABLE,
        UID.format(1),
    )
    guaranteed = by_path(found)[f"kubepods/pod{UID.format(0)}"]
    assert (guaranteed.level, guaranteed.tier) == (Level.POD, Tier.GUARANTEED)


def test_slices_and_scopes_are_found(plain: PlainTree) -> None:
    uid = UID.format(7).replace("-", "_")
    tier = "a.slice/kubepods.slice/kubepods-besteffort.slice"
    pod = f"{tier}/kubepods-besteffort-pod{uid}.slice"
    plain.make(f"{pod}/cri-containerd-{CONTAINER.format(1)}.scope")
    found = CgroupTree(plain.mounts, "a.slice/kubepods.slice").scan()
    assert [ref.level for ref in found.refs] == list(Level)
    assert [ref.owner for ref in found.refs] == ["", "", UID.format(7), UID.format(7)]
    assert found.refs[-1].tier is Tier.BESTEFFORT


def test_strangers_are_ignored(plain: PlainTree) -> None:
    pods(plain)
    before = CgroupTree(plain.mounts, "kubepods").scan()
    for stranger in (
        "kubepods/system.slice",
        "kubepods/burstable/nested/pod" + UID.format(9),
        "kubepods/burstable/burstable",
        "kubepods/pod..",
        f"kubepods/pod{UID.format(0)}/crio-conmon-{CONTAINER.format(1)}.scope",
        f"kubepods/pod{UID.format(0)}/{CONTAINER.format(0)}/{CONTAINER.format(5)}",
        f"kubepods/{CONTAINER.format(1)}",
    ):
        plain.make(stranger)
    os.symlink(plain.directory("kubepods"), plain.directory(f"kubepods/pod{UID.format(8)}"))
    assert set(CgroupTree(plain.mounts, "kubepods").scan().refs) == set(before.refs)


def test_at_the_tiers_nothing_below_is_listed(plain: PlainTree, listed: list[str]) -> None:
    pods(plain)
    tree = CgroupTree(plain.mounts, "kubepods", Depth.TIERS)
    found = tree.scan()
    assert [ref.level for ref in found.refs] == [Level.NODE, Level.TIER, Level.TIER]
    plain.make(f"kubepods/burstable/pod{UID.format(5)}/{CONTAINER.format(5)}")
    assert tree.refresh() is found
    assert listed == ["kubepods"]


def test_at_the_tiers_a_new_tier_is_noticed(plain: PlainTree) -> None:
    plain.make("kubepods/burstable")
    tree = CgroupTree(plain.mounts, "kubepods", Depth.TIERS)
    tree.scan()
    plain.make("kubepods/besteffort")
    assert {ref.tier for ref in tree.refresh().refs} == set(Tier)
    plain.remove("kubepods/burstable")
    assert [ref.tier for ref in tree.refresh().refs] == [Tier.GUARANTEED, Tier.BESTEFFORT]


def test_a_refresh_without_a_change_lists_nothing(plain: PlainTree, listed: list[str]) -> None:
    pods(plain)
    tree = CgroupTree(plain.mounts, "kubepods")
    found = tree.refresh()
    assert len(listed) == 6
    listed.clear()
    assert tree.refresh() is found
    assert listed == []


def test_a_new_pod_costs_two_listings(plain: PlainTree, listed: list[str]) -> None:
    pods(plain)
    tree = CgroupTree(plain.mounts, "kubepods")
    before = tree.scan()
    listed.clear()
    plain.make(f"kubepods/burstable/pod{UID.format(5)}/{CONTAINER.format(5)}")
    after = tree.refresh()
    assert sorted(listed) == ["burstable", f"pod{UID.format(5)}"]
    assert len(set(after.refs) - set(before.refs)) == 2
    assert after == tree.scan()


def test_a_new_container_costs_one_listing(plain: PlainTree, listed: list[str]) -> None:
    first = pods(plain)[0]
    tree = CgroupTree(plain.mounts, "kubepods")
    tree.scan()
    listed.clear()
    plain.make(f"{os.path.dirname(first)}/{CONTAINER.format(99)}")
    assert len(tree.refresh().refs) == 13
    assert listed == [f"pod{UID.format(0)}"]


def test_a_removed_pod_takes_its_containers_along(plain: PlainTree) -> None:
    pods(plain)
    tree = CgroupTree(plain.mounts, "kubepods")
    tree.scan()
    plain.remove(f"kubepods/burstable/pod{UID.format(1)}")
    assert [ref for ref in tree.refresh().refs if ref.owner == UID.format(1)] == []


def test_a_tree_that_comes_goes_and_comes_again(plain: PlainTree) -> None:
    tree = CgroupTree(plain.mounts, "kubepods")
    for _ in range(2):
        missing = tree.refresh()
        assert missing.refs == ()
        assert [unread.path for unread in missing.unread] == ["kubepods"]
        assert missing.unread[0].gap.reason.endswith("No such file or directory")
        pods(plain)
        assert len(tree.refresh().refs) == 12
        plain.remove("kubepods")


def test_without_a_cpu_hierarchy_there_is_one_gap() -> None:
    tree = CgroupTree(CgroupMounts({}), "kubepods")
    assert tree.scan().unread[0].gap == Gap("the cpu controller is mounted nowhere")
    reading = tree.read(CgroupRef("kubepods", 1, Level.NODE), EVERYTHING, AT)
    assert isinstance(reading.times, Gap)
    assert isinstance(reading.quota, Gap)


def test_what_cannot_be_listed_stays_as_it_was_known(plain: PlainTree) -> None:
    """Out of descriptors: a full tree must not look like an empty one."""
    pods(plain)
    tree = CgroupTree(plain.mounts, "kubepods")
    before = tree.scan()
    plain.make(f"kubepods/burstable/pod{UID.format(5)}")
    with descriptor_limit(open_descriptors()):
        during = tree.refresh()
    assert during.refs == before.refs
    assert [unread.path for unread in during.unread] == ["kubepods/burstable"]
    assert "Too many open files" in during.unread[0].gap.reason
    after = tree.refresh()
    assert after.unread == ()
    assert len(after.refs) == len(before.refs) + 1


@pytest.fixture
def container(plain: PlainTree) -> Iterator[tuple[PlainTree, CgroupTree, CgroupRef]]:
    path = pods(plain)[-1]
    tree = CgroupTree(plain.mounts, "kubepods")
    yield plain, tree, by_path(tree.scan())[path]
    tree.close()


Container = tuple[PlainTree, CgroupTree, CgroupRef]


def test_everything_is_read(container: Container) -> None:
    plain, tree, ref = container
    reading = tree.read(ref, EVERYTHING, AT)
    assert (reading.ref, reading.at) == (ref, AT)
    assert reading.times == CpuTimes(Micros(7), 4, 3, Micros(2))
    assert reading.quota == Bandwidth(Micros(50_000))
    assert reading.burst == 20_000
    assert reading.weight == (512 if plain.version is CgroupVersion.V1 else 20)
    assert reading.idle is False
    assert reading.cpus == CpuSet.of((0, 1))
    assert isinstance(reading.pressure, Gap) == (plain.version is CgroupVersion.V1)


@pytest.mark.parametrize("field", list(Field))
def test_only_what_is_wanted_is_read(container: Container, field: Field) -> None:
    _, tree, ref = container
    reading = tree.read(ref, frozenset({field}), AT)
    for other in Field:
        assert (getattr(reading, other.value) == NOT_ASKED) == (other is not field)


def test_no_limit_is_a_value(container: Container) -> None:
    plain, tree, ref = container
    if plain.version is CgroupVersion.V1:
        plain.put(ref.path, "cpu.cfs_quota_us", "-1\n")
    else:
        plain.put(ref.path, "cpu.max", "max 100000\n")
    assert tree.read(ref, EVERYTHING, AT).quota == Bandwidth(UNLIMITED)


def read_fresh(plain: PlainTree, ref: CgroupRef) -> CgroupReading:
    """A tree of its own: the other one's descriptors would outlive what a test does to a file."""
    tree = CgroupTree(plain.mounts, "kubepods")
    reading = tree.read(ref, EVERYTHING, AT)
    tree.close()
    return reading


def test_a_missing_file_of_a_living_group_says_so(container: Container) -> None:
    plain, _, ref = container
    for controller in Controller:
        for name in os.listdir(plain.directory(ref.path, controller)):
            os.unlink(f"{plain.directory(ref.path, controller)}/{name}")
    reading = read_fresh(plain, ref)
    assert reading.times == Gap("cpu.stat does not exist here")
    assert reading.idle == Gap("cpu.idle does not exist here")
    assert reading.cpus == Gap("cpuset.cpus does not exist here")


def test_a_v1_group_may_lack_another_hierarchy(tmp_path: Path) -> None:
    plain = PlainTree(tmp_path, CgroupVersion.V1)
    path = pods(plain)[-1]
    ref = by_path(CgroupTree(plain.mounts, "kubepods").scan())[path]
    for controller in (Controller.CPUACCT, Controller.CPUSET):
        directory = plain.directory(path, controller)
        os.unlink(f"{directory}/{os.listdir(directory)[0]}")
        os.rmdir(directory)
    reading = read_fresh(plain, ref)
    assert reading.times == Gap("cpuacct.usage does not exist here")
    assert isinstance(reading.cpus, Gap)
    assert "does not exist" in reading.cpus.reason
    assert reading.weight == 512


def test_one_mount_for_cpu_and_cpuacct(tmp_path: Path) -> None:
    plain = PlainTree(tmp_path, CgroupVersion.V1)
    shared = Mount(CgroupVersion.V1, f"{tmp_path}/cpu,cpuacct")
    plain.mounts = CgroupMounts(
        {**plain.mounts.by_controller, Controller.CPU: shared, Controller.CPUACCT: shared}
    )
    path = pods(plain)[-1]
    ref = by_path(CgroupTree(plain.mounts, "kubepods").scan())[path]
    assert isinstance(read_fresh(plain, ref).times, CpuTimes)


def test_every_file_may_be_a_directory_a_loop_or_garbage(container: Container) -> None:
    plain, _, ref = container
    for controller in Controller:
        directory = plain.directory(ref.path, controller)
        for damage in ("garbage", "huge", "loop", "directory"):
            for name in os.listdir(directory):
                spoil(f"{directory}/{name}", damage)
            reading = read_fresh(plain, ref)
            assert reading.ref == ref
            if controller is Controller.CPU:
                assert isinstance(reading.times, Gap)
                assert isinstance(reading.weight, Gap)
                assert VANISHED not in (reading.times, reading.weight)
                assert len(reading.quota.reason if isinstance(reading.quota, Gap) else "") < 120


def spoil(path: str, damage: str) -> None:
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        return
    match damage:
        case "loop":
            os.symlink(path, path)
        case "directory":
            os.mkdir(path)
        case _:
            with open(path, "wb") as file:
                file.write(b"\xff\x00 x" if damage == "garbage" else b"9" * 1_000_000)


def test_a_ref_of_another_id_is_gone(container: Container) -> None:
    _, tree, ref = container
    reading = tree.read(CgroupRef(ref.path, ref.id + 1, ref.level), EVERYTHING, AT)
    assert {getattr(reading, field.value) for field in Field} <= {VANISHED, reading.pressure}
    assert reading.times is VANISHED


def test_a_vanished_reading_makes_its_parent_suspect(
    container: Container, listed: list[str]
) -> None:
    _, tree, ref = container
    before = tree.refresh()
    listed.clear()
    tree.read(CgroupRef(ref.path, ref.id + 1, ref.level), frozenset({Field.IDLE}), AT)
    assert tree.refresh() is before
    assert listed == [f"pod{UID.format(2)}"]


def test_what_changes_each_tick_is_read_anew(container: Container) -> None:
    plain, tree, ref = container
    tree.read(ref, EVERYTHING, AT)
    if plain.version is CgroupVersion.V1:
        plain.put(ref.path, "cpuacct.usage", "9000\n", Controller.CPUACCT)
    else:
        plain.put(ref.path, "cpu.stat", "usage_usec 9\n")
    times = tree.read(ref, EVERYTHING, AT).times
    assert isinstance(times, CpuTimes)
    assert times.usage == 9


def test_descriptors_are_kept_for_counters_alone_and_closed(plain: PlainTree) -> None:
    pods(plain)
    before = open_descriptors()
    tree = CgroupTree(plain.mounts, "kubepods")
    found = tree.scan()
    assert open_descriptors() == before
    for _ in range(3):
        for ref in found.refs:
            tree.read(ref, EVERYTHING, AT)
    # v1: cpu.stat and cpuacct.usage; v2: cpu.stat and cpu.pressure.
    assert open_descriptors() == before + 2 * len(found.refs)
    plain.remove(f"kubepods/burstable/pod{UID.format(1)}")
    remaining = tree.refresh()
    assert open_descriptors() == before + 2 * len(remaining.refs)
    tree.close()
    assert open_descriptors() == before
    tree.close()


def test_a_group_that_goes_while_it_is_walked_is_not_there(
    plain: PlainTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods(plain)
    going = f"kubepods/burstable/pod{UID.format(1)}"
    opened = os.open

    def removing(path: str, *arguments: Any, **named: Any) -> int:
        if path == plain.directory(going):
            monkeypatch.undo()
            plain.remove(going)
        return opened(path, *arguments, **named)

    tree = CgroupTree(plain.mounts, "kubepods")
    monkeypatch.setattr(os, "open", removing)
    found = tree.scan()
    assert found.unread == ()
    assert len(found.refs) == 9
    assert going not in by_path(found)
    assert tree.refresh() == found == tree.scan()
