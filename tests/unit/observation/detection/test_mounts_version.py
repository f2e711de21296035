"""Which cgroup version: the override, the magic number, the mount table, in this order."""

import itertools
import shutil
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from slackwater.observation.detection import (
    EnvironmentValueError,
    Undetected,
    VersionVerdict,
    detect_version,
)
from slackwater.observation.detection.mounts import CGROUP1_MAGIC
from tests.unit.observation.detection.host_picture import HostPicture

OURS, ALIAS = "SLACKWATER_CGROUP_VERSION", "VOLCANO_TEST_CGROUP_VERSION"
V1, V2 = CgroupVersion.V1, CgroupVersion.V2
MAGIC, TABLE = "file system magic", "mountinfo"


@pytest.fixture
def host(tmp_path: Path) -> HostPicture:
    return HostPicture(tmp_path)


def verdict_of(host: HostPicture, **environ: str) -> VersionVerdict:
    found = detect_version(host.roots, environ, host.magic_of)
    assert isinstance(found, VersionVerdict), found
    return found


def mount_table(host: HostPicture, *mounts: tuple[str, str]) -> None:
    """(directory below the cgroup root or "", file system) pairs."""
    lines = [
        f"{number} 1 0:{number} / {host.roots.cgroup}{name} rw - {kind} {kind} rw"
        for number, (name, kind) in enumerate(mounts, 30)
    ]
    host.file("proc/self/mountinfo", "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("value", "version"), [("v1", V1), ("1", V1), ("v2", V2), ("2", V2)], ids=repr
)
@pytest.mark.parametrize("variable", [OURS, ALIAS])
def test_the_override_decides(
    host: HostPicture, variable: str, value: str, version: CgroupVersion
) -> None:
    found = verdict_of(host, **{variable: value})
    assert (found.label, found.version, found.source) == (version.value, version, variable)
    assert found.is_override()


def test_ours_goes_before_the_alias(host: HostPicture) -> None:
    found = verdict_of(host, **{ALIAS: "v1", OURS: "v2"})
    assert (found.label, found.source) == ("v2", OURS)
    assert [f.found for f in found.findings if f.source == ALIAS] == ["v1"]


def test_the_override_beats_the_kernel_and_the_kernels_word_is_kept(host: HostPicture) -> None:
    host.mount_v2("", "cpu memory")
    found = verdict_of(host, **{OURS: "v1"})
    assert found.label == "v1"
    assert [f.found for f in found.findings if f.source == MAGIC] == ["v2"]


@pytest.mark.parametrize("value", ["v3", "V2", " v2", "hybrid", "0", "true", "v" * 500])
@pytest.mark.parametrize("variable", [OURS, ALIAS])
def test_a_wrong_override_is_an_error_never_a_default(
    host: HostPicture, variable: str, value: str
) -> None:
    host.mount_v2("", "cpu")
    with pytest.raises(EnvironmentValueError) as raised:
        detect_version(host.roots, {variable: value}, host.magic_of)
    sentence = f"{variable} is {value[:80]!r}; it must be v1, v2, 1 or 2"
    assert str(raised.value) == sentence


def test_a_wrong_alias_is_an_error_although_ours_is_set(host: HostPicture) -> None:
    with pytest.raises(EnvironmentValueError, match=ALIAS):
        detect_version(host.roots, {OURS: "v1", ALIAS: "v9"}, host.magic_of)


def test_an_empty_override_counts_as_unset(host: HostPicture) -> None:
    host.mount_v2("", "cpu")
    assert verdict_of(host, **{OURS: "", ALIAS: ""}).source == MAGIC


def test_cgroup2_at_the_root_is_v2(host: HostPicture) -> None:
    host.mount_v2("", "cpu")
    found = verdict_of(host)
    assert (found.label, found.version, found.source) == ("v2", V2, MAGIC)
    assert not found.is_override()


def test_a_cpu_hierarchy_below_is_v1(host: HostPicture) -> None:
    host.mount_v1("cpu")
    host.mount_v1("memory")
    found = verdict_of(host)
    assert (found.label, found.version, found.source) == ("v1", V1, MAGIC)


@pytest.mark.parametrize("name", ["cpu,cpuacct", "cpuacct,cpu"])
def test_a_shared_hierarchy_with_cpu_is_v1(host: HostPicture, name: str) -> None:
    host.mount_v1(name)
    assert verdict_of(host).label == "v1"


@pytest.mark.parametrize("name", ["unified", "other"])
def test_cgroup2_besides_is_hybrid_and_cpu_stays_v1(host: HostPicture, name: str) -> None:
    cpu, unified = host.mount_v1("cpu"), host.mount_v2(name, "hugetlb")
    found = verdict_of(host)
    assert (found.label, found.version) == ("hybrid", V1)
    [note] = [f.note for f in found.findings if f.source == MAGIC]
    assert note == f"cpu is v1 at {cpu}, and cgroup2 is mounted at {unified}"


def test_cgroup2_deeper_below_is_found_by_the_mount_table(host: HostPicture) -> None:
    host.mount_v1("cpu")
    host.mount_v2("deep/unified", "hugetlb")
    assert verdict_of(host).label == "v1"
    mount_table(host, ("/cpu", "cgroup"), ("/deep/unified", "cgroup2"))
    assert verdict_of(host).label == "hybrid"


def test_a_hybrid_host_whose_cpu_is_in_cgroup2(host: HostPicture) -> None:
    host.mount_v1("memory")
    host.mount_v2("unified", "cpu io")
    found = verdict_of(host)
    assert (found.label, found.version) == ("hybrid", V2)


def test_folders_that_are_not_mounted_do_not_count(host: HostPicture) -> None:
    host.folder("cgroup/cpu")
    host.folder("cgroup/unified")
    found = detect_version(host.roots, {}, host.magic_of)
    assert isinstance(found, Undetected)
    assert found.reason == (
        f"{host.roots.cgroup} is not a cgroup file system, and no cpu hierarchy is mounted below it"
    )
    assert [finding.source for finding in found.findings] == [
        "SLACKWATER_CGROUP_VERSION",
        "VOLCANO_TEST_CGROUP_VERSION",
        "file system magic",
        "mountinfo",
    ]


def test_cgroup2_below_without_cpu_is_no_version(host: HostPicture) -> None:
    host.mount_v2("unified", "hugetlb")
    assert isinstance(detect_version(host.roots, {}, host.magic_of), Gap)


def test_one_hierarchy_given_as_the_root_says_what_to_do(host: HostPicture) -> None:
    host.magics[host.roots.cgroup] = CGROUP1_MAGIC
    found = detect_version(host.roots, {}, host.magic_of)
    assert isinstance(found, Gap)
    assert "the cgroup root is the directory above it" in found.reason


def test_no_cgroup_root_at_all(host: HostPicture) -> None:
    Path(host.roots.cgroup).rmdir()
    found = detect_version(host.roots, {}, host.magic_of)
    assert isinstance(found, Undetected)
    assert found.reason == f"there is no directory {host.roots.cgroup}"


def test_a_mount_that_another_one_hides_does_not_count(host: HostPicture) -> None:
    """The mount table goes on listing it; the directory is not there to be read."""
    host.mount_v1("cpu")
    shutil.rmtree(host.roots.cgroup)
    assert isinstance(detect_version(host.roots, {}, host.magic_of), Undetected)


def test_a_real_folder_has_no_version_by_the_real_statfs(host: HostPicture) -> None:
    assert isinstance(detect_version(host.roots, {}), Gap)


def unknown(path: str) -> Gap:
    return Gap(f"statfs of {path}: Function not implemented")


@pytest.mark.parametrize(
    ("mounts", "label", "version"),
    [
        ([("", "cgroup2")], "v2", V2),
        ([("", "tmpfs"), ("/cpu", "cgroup")], "v1", V1),
        ([("", "tmpfs"), ("/cpu", "cgroup"), ("/unified", "cgroup2")], "hybrid", V1),
    ],
)
def test_without_statfs_the_mount_table_decides(
    host: HostPicture, mounts: list[tuple[str, str]], label: str, version: CgroupVersion
) -> None:
    for name, _ in mounts:
        host.folder(f"cgroup{name}")
    mount_table(host, *mounts)
    found = detect_version(host.roots, {}, unknown)
    assert isinstance(found, VersionVerdict)
    assert (found.label, found.version, found.source) == (label, version, TABLE)
    [note] = [f.note for f in found.findings if f.source == MAGIC]
    assert note == f"statfs of {host.roots.cgroup}: Function not implemented"


def test_the_magic_number_beats_the_mount_table(host: HostPicture) -> None:
    host.mount_v2("", "cpu")
    mount_table(host, ("", "tmpfs"), ("/cpu", "cgroup"))
    host.folder("cgroup/cpu")
    found = verdict_of(host)
    assert (found.label, found.source) == ("v2", MAGIC)
    assert [f.found for f in found.findings] == [None, None, "v2", "v1"]


def test_every_source_is_kept_in_order(host: HostPicture) -> None:
    host.mount_v2("", "cpu")
    found = verdict_of(host)
    assert [f.source for f in found.findings] == [OURS, ALIAS, MAGIC, TABLE]
    assert all(f.note for f in found.findings)


def test_neither_statfs_nor_a_mount_table(host: HostPicture) -> None:
    Path(f"{host.roots.proc}/self/mountinfo").unlink()
    found = detect_version(host.roots, {OURS: "v2"}, unknown)
    assert isinstance(found, VersionVerdict)
    assert "is not readable" in found.findings[-1].note
    assert isinstance(detect_version(host.roots, {}, unknown), Gap)


def test_garbage_in_the_mount_table(host: HostPicture) -> None:
    host.mount_v2("", "cpu")
    for garbage, magic in itertools.product(
        [b"", b"\0" * 5000, b"\xff - \xff\n", b" - " * 3000], [host.magic_of, unknown]
    ):
        host.file("proc/self/mountinfo", garbage)
        found = detect_version(host.roots, {OURS: "2"}, magic)
        assert isinstance(found, VersionVerdict)
        assert found.findings[-1].found is None


def test_loops_and_garbage_names_below_the_root(host: HostPicture) -> None:
    host.mount_v1("cpu")
    Path(f"{host.roots.cgroup}/loop").symlink_to("loop")
    Path(f"{host.roots.cgroup}/memory").symlink_to("../cgroup")
    host.folder("cgroup/\udc80\udcff")
    assert verdict_of(host).label == "v1"
