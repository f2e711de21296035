"""Discovery on plain directories: names, levels, and what is listed when."""

import os
from pathlib import Path
from typing import Any

import pytest

from slackwater.model.cgroup import CgroupMounts, CgroupRef, CgroupVersion, CpuTimes, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.needs import ReadingField
from slackwater.model.units import Micros
from slackwater.observation.cgroups.tree import CgroupTree, Depth
from tests.unit.observation.descriptors import descriptor_limit, open_descriptors
from tests.unit.observation.plain_tree import CONTAINER, UID, PlainTree, by_path, pods

EVERYTHING = frozenset(ReadingField)
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


def test_the_mount_itself_may_be_the_tree(plain: PlainTree) -> None:
    plain.make(f"burstable/pod{UID.format(1)}")
    tree = CgroupTree(plain.mounts, "")
    assert [ref.path for ref in tree.scan().refs] == [
        "",
        "burstable",
        f"burstable/pod{UID.format(1)}",
    ]
    plain.make(f"pod{UID.format(2)}")
    assert len(tree.refresh().refs) == 4
    assert isinstance(tree.read(tree.refresh().refs[1], EVERYTHING, AT).times, CpuTimes)
    tree.close()


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


def test_a_vanished_reading_makes_its_parent_suspect(plain: PlainTree, listed: list[str]) -> None:
    path = pods(plain)[-1]
    tree = CgroupTree(plain.mounts, "kubepods")
    before = tree.scan()
    ref = by_path(before)[path]
    listed.clear()
    tree.read(CgroupRef(ref.path, ref.id + 1, ref.level), frozenset({ReadingField.IDLE}), AT)
    assert tree.refresh() is before
    assert listed == [f"pod{UID.format(2)}"]


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


@pytest.mark.parametrize("more", [0, 80])
def test_a_replaced_container_is_noticed_where_containers_are_looked_at(
    plain: PlainTree, more: int
) -> None:
    """One that goes and one that comes keep their pod's link count."""
    path = pods(plain)[-1]
    for number in range(more):
        plain.make(f"kubepods/burstable/pod{UID.format(100 + number)}")
    tree = CgroupTree(plain.mounts, "kubepods")
    before = tree.scan()
    for _ in range(4):
        tree.look_at_containers()
        assert tree.refresh() is before
    plain.remove(path)
    successor = plain.make(f"{path.rpartition('/')[0]}/{CONTAINER.format(999)}")
    for _ in range(10 if more else 1):
        tree.look_at_containers()
        tree.refresh()
    found = by_path(tree.refresh())
    assert (path in found, successor in found) == (False, True)
