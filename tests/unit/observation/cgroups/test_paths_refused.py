"""A uid, container id or cgroup root that is not one never becomes a path."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import Driver, Tier
from slackwater.observation.cgroups.paths import (
    KubepodsLayout,
    NotACgroupRoot,
    NotAnId,
    container_directory,
    container_id,
    node_path,
    pod_path,
    pod_uid,
    tier_of,
    tier_path,
)

CGROUPFS = KubepodsLayout(Driver.CGROUPFS)
SYSTEMD = KubepodsLayout(Driver.SYSTEMD)
ROOTS = st.sampled_from(["", "/", "kubelet", "/kubelet/", "my-root"])
LAYOUTS = st.builds(KubepodsLayout, st.sampled_from(Driver), ROOTS)
TIERS = st.sampled_from(Tier)


def systemd(cgroup_root: str) -> KubepodsLayout:
    return KubepodsLayout(Driver.SYSTEMD, cgroup_root)


def cgroupfs(cgroup_root: str) -> KubepodsLayout:
    return KubepodsLayout(Driver.CGROUPFS, cgroup_root)


BAD = [
    "",
    ".",
    "..",
    "../../etc",
    "/etc",
    "a/b",
    "a/../b",
    "a.b",
    "-a",
    "a\n",
    "a\0b",
    "%2e%2e",
    "a b",
    "ä",
    "\udc80",
    "x" * 200,
]


@pytest.mark.parametrize("uid", [*BAD, "A", "a-", "a_b", "x" * 64])
def test_what_is_no_uid_is_refused_with_one_sentence(uid: str) -> None:
    for layout in (CGROUPFS, SYSTEMD):
        with pytest.raises(NotAnId, match="is not a pod uid") as refused:
            pod_path(layout, Tier.BURSTABLE, uid)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "given_id", [*BAD, "_a", "a://b://c", "containerd://", "containerd://../x"]
)
def test_what_is_no_container_id_is_refused_with_one_sentence(given_id: str) -> None:
    for driver in Driver:
        with pytest.raises(NotAnId, match="is not a container id") as refused:
            container_directory(driver, given_id)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "layout",
    [
        *(
            KubepodsLayout(driver, root)
            for driver in Driver
            for root in BAD
            if root not in ("", "/etc", "a/b", "a.b")
        ),
        cgroupfs("a//b"),
        cgroupfs("//a"),
        cgroupfs("/a/../b"),
        systemd("a//b"),
        systemd("/a/../b"),
        systemd("//a"),
        systemd(".slice"),
        systemd("-.slice"),
        systemd("a--b.slice"),
        systemd("a/b.slice"),
    ],
    ids=repr,
)
def test_what_is_no_cgroup_root_is_refused(layout: KubepodsLayout) -> None:
    with pytest.raises(NotACgroupRoot, match="is not a cgroup root"):
        node_path(layout)


HOSTILE = st.text(string.ascii_letters + "0123456789-_./%\\\0\n ~", max_size=80)


@given(LAYOUTS, TIERS, HOSTILE | st.text(max_size=80))
def test_no_uid_climbs_out_of_its_tier(layout: KubepodsLayout, tier: Tier, uid: str) -> None:
    try:
        path = pod_path(layout, tier, uid)
    except NotAnId:
        return
    assert not set(uid) & set("/.%\0\n")
    assert path.rpartition("/")[0] == tier_path(layout, tier)


@given(st.sampled_from(Driver), HOSTILE | st.text(max_size=80))
def test_no_container_id_has_a_slash_or_a_dot(driver: Driver, given_id: str) -> None:
    try:
        directory = container_directory(driver, given_id)
    except NotAnId:
        return
    assert "/" not in directory
    assert ".." not in directory
    assert "\0" not in directory


@given(st.sampled_from(Driver), HOSTILE | st.text(max_size=80))
def test_no_cgroup_root_climbs(driver: Driver, root: str) -> None:
    try:
        parts = node_path(KubepodsLayout(driver, root)).split("/")
    except NotACgroupRoot:
        return
    assert not {"", ".", ".."} & set(parts)


@given(HOSTILE | st.text())
def test_any_name_can_be_asked_about(name: str) -> None:
    for answer in (pod_uid(name), container_id(name)):
        assert answer is None or answer.replace("-", "").isalnum()
    assert tier_of(name) in (None, Tier.BESTEFFORT, Tier.BURSTABLE)
