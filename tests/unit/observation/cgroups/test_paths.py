"""Paths of both drivers, and back from names. What is refused: test_refused_paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import Driver, Tier
from slackwater.observation.cgroups.paths import (
    KubepodsLayout,
    container_directory,
    container_id,
    layout_of,
    node_path,
    pod_path,
    pod_uid,
    tier_of,
    tier_path,
)

CGROUPFS = KubepodsLayout(Driver.CGROUPFS)
SYSTEMD = KubepodsLayout(Driver.SYSTEMD)
UID = "d2988e14-83bc-4d3d-931a-59f8a3174396"
STATIC_UID = "8b3a9c1d2e4f5061728394a5b6c7d8e9"
ID = "0123456789abcdef" * 4

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
UUIDS = st.uuids().map(str)
STATIC_UIDS = st.uuids().map(lambda uid: uid.hex)
UIDS = UUIDS | STATIC_UIDS | LABELS
ROOTS = st.sampled_from(["", "/", "kubelet", "/kubelet", "/kubelet/", "my-root", "a_b.c", "k8s"])
LAYOUTS = st.builds(KubepodsLayout, st.sampled_from(Driver), ROOTS)
TIERS = st.sampled_from(Tier)


def systemd(cgroup_root: str) -> KubepodsLayout:
    return KubepodsLayout(Driver.SYSTEMD, cgroup_root)


def cgroupfs(cgroup_root: str) -> KubepodsLayout:
    return KubepodsLayout(Driver.CGROUPFS, cgroup_root)


# The rows of facts/volcano.md section 6, by their number.


@pytest.mark.parametrize(
    ("given_id", "directory"),
    [("containerd://abc123", "abc123"), ("docker://xyz789", "xyz789"), ("abc123", "abc123")],
)
def test_row_43_container_directories_of_cgroupfs(given_id: str, directory: str) -> None:
    assert container_directory(Driver.CGROUPFS, given_id) == directory


def test_row_45_best_effort_root_of_cgroupfs() -> None:
    """The path is the same on v1 and v2; the mount in front of it is what differs."""
    assert tier_path(CGROUPFS, Tier.BESTEFFORT) == "kubepods/besteffort"


def test_row_45_pods_below_the_best_effort_root() -> None:
    assert pod_path(CGROUPFS, Tier.BESTEFFORT, UID) == f"kubepods/besteffort/pod{UID}"


def test_row_47_a_burstable_pod_of_systemd() -> None:
    assert pod_path(SYSTEMD, Tier.BURSTABLE, UID) == (
        "kubepods.slice/kubepods-burstable.slice/"
        "kubepods-burstable-podd2988e14_83bc_4d3d_931a_59f8a3174396.slice"
    )


@pytest.mark.parametrize("root", ["kubelet", "/kubelet", "/kubelet/", "kubelet.slice"])
def test_row_49_the_kubelets_cgroup_root_under_systemd(root: str) -> None:
    """Volcano fails on "/kubelet" and on the suffix; a kubelet has the first by default in kind."""
    assert tier_path(systemd(root), Tier.BESTEFFORT) == (
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"
    )


# The other branches of the path rules.


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        (CGROUPFS, "kubepods"),
        (SYSTEMD, "kubepods.slice"),
        (cgroupfs("/"), "kubepods"),
        (systemd("/"), "kubepods.slice"),
        (cgroupfs("kubelet"), "kubelet/kubepods"),
        (cgroupfs("/kubelet"), "kubelet/kubepods"),
        (cgroupfs("/docker/kubelet"), "docker/kubelet/kubepods"),
        (cgroupfs("kubelet.slice"), "kubelet.slice/kubepods"),
        (systemd("/a/b"), "a.slice/a-b.slice/a-b-kubepods.slice"),
        (systemd("my-root"), "my_root.slice/my_root-kubepods.slice"),
        (systemd("a-b.slice"), "a.slice/a-b.slice/a-b-kubepods.slice"),
    ],
)
def test_the_root_of_the_tree(layout: KubepodsLayout, path: str) -> None:
    assert node_path(layout) == path


@pytest.mark.parametrize(
    ("layout", "tier", "path"),
    [
        (CGROUPFS, Tier.GUARANTEED, "kubepods"),
        (CGROUPFS, Tier.BURSTABLE, "kubepods/burstable"),
        (SYSTEMD, Tier.GUARANTEED, "kubepods.slice"),
        (SYSTEMD, Tier.BURSTABLE, "kubepods.slice/kubepods-burstable.slice"),
    ],
)
def test_tiers(layout: KubepodsLayout, tier: Tier, path: str) -> None:
    assert tier_path(layout, tier) == path


def test_guaranteed_pods_sit_below_the_root_of_the_tree() -> None:
    assert pod_path(CGROUPFS, Tier.GUARANTEED, UID) == f"kubepods/pod{UID}"
    assert pod_path(SYSTEMD, Tier.GUARANTEED, STATIC_UID) == (
        f"kubepods.slice/kubepods-pod{STATIC_UID}.slice"
    )


@pytest.mark.parametrize(
    ("given_id", "directory"),
    [
        (f"containerd://{ID}", f"cri-containerd-{ID}.scope"),
        (f"docker://{ID}", f"docker-{ID}.scope"),
        (f"cri-o://{ID}", f"crio-{ID}.scope"),
        (f"rkt://{ID}", ID),
        (ID, ID),
    ],
)
def test_container_directories_of_systemd(given_id: str, directory: str) -> None:
    assert container_directory(Driver.SYSTEMD, given_id) == directory


def test_cri_o_keeps_its_prefix_without_systemd() -> None:
    """containerCgroupPath in CRI-O's cgmgr: the same name, less the suffix."""
    assert container_directory(Driver.CGROUPFS, f"cri-o://{ID}") == f"crio-{ID}"


# Back from names.


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        (f"pod{UID}", UID),
        (f"pod{STATIC_UID}", STATIC_UID),
        ("podmy-service-0", "my-service-0"),
        (f"kubepods-burstable-pod{UID.replace('-', '_')}.slice", UID),
        (f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice", UID),
        (f"kubepods-pod{STATIC_UID}.slice", STATIC_UID),
        (f"kubelet-kubepods-pod{UID.replace('-', '_')}.slice", UID),
        (f"a-b-kubepods-burstable-pod{STATIC_UID}.slice", STATIC_UID),
        ("pod", None),
        ("pod-", None),
        ("podA", None),
        ("pod_x", None),
        ("pod..", None),
        (f"pod{UID}\n", None),
        ("besteffort", None),
        ("kubepods.slice", None),
        ("kubepods-burstable.slice", None),
        (f"kubepods-burstable-pod{UID}.slice", None),
        (f"kubepods-guaranteed-pod{STATIC_UID}.slice", None),
        (f"system-pod{STATIC_UID}.slice", None),
        (ID, None),
        ("", None),
    ],
)
def test_the_uid_in_a_name(name: str, uid: str | None) -> None:
    assert pod_uid(name) == uid


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (ID, ID),
        (f"cri-containerd-{ID}.scope", ID),
        (f"crio-{ID}.scope", ID),
        (f"docker-{ID}.scope", ID),
        (f"crio-{ID}", ID),
        (f"crio-conmon-{ID}.scope", None),
        (f"crio-conmon-{ID}", None),
        (f"crio-infra-{ID}.scope", None),
        (f"libpod-conmon-{ID}.scope", None),
        (f"{ID}.scope", None),
        (f"docker-{ID}", None),
        (f"docker-{ID}.slice", None),
        (ID[:-1], None),
        (f"{ID}0", None),
        (ID.upper(), None),
        (f"{ID}\n", None),
        (f"pod{UID}", None),
        ("", None),
    ],
)
def test_the_container_id_in_a_name(name: str, found: str | None) -> None:
    assert container_id(name) == found


@pytest.mark.parametrize(
    ("name", "tier"),
    [
        ("besteffort", Tier.BESTEFFORT),
        ("burstable", Tier.BURSTABLE),
        ("kubepods-besteffort.slice", Tier.BESTEFFORT),
        ("kubepods-burstable.slice", Tier.BURSTABLE),
        ("kubelet-kubepods-burstable.slice", Tier.BURSTABLE),
        ("a-b-kubepods-besteffort.slice", Tier.BESTEFFORT),
        ("guaranteed", None),
        ("kubepods", None),
        ("kubepods.slice", None),
        ("besteffort.slice", None),
        ("kubepods-besteffort", None),
        ("kubepods-besteffort.slice\n", None),
        ("xkubepods-besteffort.slice", None),
        (f"kubepods-besteffort-pod{STATIC_UID}.slice", None),
        ("", None),
    ],
)
def test_the_tier_in_a_name(name: str, tier: Tier | None) -> None:
    assert tier_of(name) is tier


@pytest.mark.parametrize(
    ("path", "layout"),
    [
        ("kubepods", CGROUPFS),
        ("kubepods.slice", SYSTEMD),
        ("kubelet/kubepods", cgroupfs("kubelet")),
        ("kubelet.slice/kubelet-kubepods.slice", systemd("kubelet")),
        ("a.slice/a-b.slice/a-b-kubepods.slice", systemd("a-b.slice")),
        ("kubepods/besteffort", None),
        ("system.slice", None),
        ("", None),
    ],
)
def test_the_layout_of_a_tree(path: str, layout: KubepodsLayout | None) -> None:
    assert layout_of(path) == layout


# Laws.


@given(LAYOUTS, TIERS, UIDS)
def test_the_name_of_a_pods_directory_gives_its_uid_back(
    layout: KubepodsLayout, tier: Tier, uid: str
) -> None:
    above, _, name = pod_path(layout, tier, uid).rpartition("/")
    assert pod_uid(name) == uid
    assert above == tier_path(layout, tier)


@given(LAYOUTS, st.sampled_from([Tier.BURSTABLE, Tier.BESTEFFORT]))
def test_the_name_of_a_tiers_directory_gives_the_tier_back(
    layout: KubepodsLayout, tier: Tier
) -> None:
    above, _, name = tier_path(layout, tier).rpartition("/")
    assert tier_of(name) is tier
    assert above == node_path(layout)
    assert pod_uid(name) is None


@given(LAYOUTS | st.builds(systemd, st.sampled_from(["a-b.slice", "x.slice.slice", "a-b-c.slice"])))
def test_a_tree_that_was_found_has_the_paths_of_the_one_that_was_made(
    layout: KubepodsLayout,
) -> None:
    found = layout_of(node_path(layout))
    assert found is not None
    assert node_path(found) == node_path(layout)


@given(
    st.sampled_from(Driver),
    st.sampled_from(["containerd://", "docker://", "cri-o://", "rkt://", ""]),
    st.text("0123456789abcdef", min_size=64, max_size=64),
)
def test_the_name_of_a_containers_directory_gives_its_id_back(
    driver: Driver, runtime: str, given_id: str
) -> None:
    assert container_id(container_directory(driver, f"{runtime}{given_id}")) == given_id
