"""The kubelet's files and its process: bounded, and never an exception."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.observation.detection import Finding, kubelet_cgroup_root
from slackwater.observation.detection.kubelet import (
    CGROUP_ROOT,
    CONFIG_FILES,
    DRIVER,
    KubeletProcess,
    file_findings,
    find_kubelet,
    process_finding,
    process_name,
)
from tests.unit.observation.detection.host_picture import HostPicture

CONFIG, CONF, FLAGS = CONFIG_FILES


@pytest.fixture
def host(tmp_path: Path) -> HostPicture:
    return HostPicture(tmp_path)


def finding_of(host: HostPicture, path: str) -> Finding:
    [finding] = [f for f in file_findings(host.roots, DRIVER) if f.source == path]
    return finding


def test_every_file_is_asked_below_the_hosts_root(host: HostPicture) -> None:
    host.kubelet_file("/var/lib/kubelet/config.yaml", "cgroupDriver: systemd\n")
    host.kubelet_file("/etc/kubernetes/kubelet.conf", "apiVersion: v1\nkind: Config\n")
    host.kubelet_file(
        "/var/lib/kubelet/kubeadm-flags.env", 'KUBELET_KUBEADM_ARGS="--cgroup-driver=cgroupfs"\n'
    )
    assert file_findings(host.roots, DRIVER) == (
        Finding("/var/lib/kubelet/config.yaml", "systemd", "cgroupDriver"),
        Finding("/etc/kubernetes/kubelet.conf", None, "cgroupDriver is not set"),
        Finding("/var/lib/kubelet/kubeadm-flags.env", "cgroupfs", "--cgroup-driver"),
    )


@pytest.mark.parametrize("path", CONFIG_FILES)
def test_an_absent_file_says_so(host: HostPicture, path: str) -> None:
    expected = Finding(path, None, "not readable: No such file or directory")
    assert finding_of(host, path) == expected


def test_what_stands_in_a_files_place(host: HostPicture) -> None:
    host.folder(f"host{CONFIG}")
    os.makedirs(f"{host.roots.host}/etc/kubernetes")
    os.mkfifo(f"{host.roots.host}{CONF}")
    Path(f"{host.roots.host}{FLAGS}").symlink_to("kubeadm-flags.env")
    assert [f.note for f in file_findings(host.roots, DRIVER)] == [
        "not readable: not a regular file",
        "not readable: not a regular file",
        "not readable: Too many levels of symbolic links",
    ]


def test_a_file_that_may_not_be_read(host: HostPicture, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    host.kubelet_file(CONFIG, "cgroupDriver: systemd\n")
    monkeypatch.setattr(os, "open", refuse)
    assert finding_of(host, CONFIG) == Finding(CONFIG, None, "not readable: Permission denied")


def test_a_file_of_nul_bytes(host: HostPicture) -> None:
    host.kubelet_file(CONFIG, b"\0" * 100 + b"\ncgroupDriver: systemd\n")
    finding = finding_of(host, CONFIG)
    assert finding == Finding(CONFIG, None, "not a text file: it contains NUL bytes")


def test_a_file_of_ten_megabytes_is_read_in_part(host: HostPicture) -> None:
    host.kubelet_file(CONFIG, "cgroupDriver: systemd\n" + "# x\n" * 2_500_000)
    assert finding_of(host, CONFIG) == Finding(
        CONFIG, "systemd", "cgroupDriver; longer than 1024 KiB, the rest was not read"
    )


# The process.


@pytest.mark.parametrize(
    ("arguments", "found", "note"),
    [
        (["--cgroup-driver=systemd"], "systemd", "pid 812: --cgroup-driver"),
        (["--cgroup-driver", "cgroupfs"], "cgroupfs", "pid 812: --cgroup-driver"),
        ([], None, "pid 812: cgroupDriver is not set"),
        (
            ["--cgroup-driver=auto"],
            None,
            "pid 812: --cgroup-driver is 'auto', which is not a valid value",
        ),
        (
            ["--config=/etc/kubelet.yaml"],
            None,
            "pid 812: '/etc/kubelet.yaml': not readable: No such file or directory",
        ),
    ],
)
def test_the_flags_of_a_running_kubelet(
    host: HostPicture, arguments: list[str], found: str | None, note: str
) -> None:
    host.process(1, "systemd", "/sbin/init")
    host.process(812, "kubelet", "/usr/bin/kubelet", *arguments)
    assert process_finding(host.roots, DRIVER) == Finding("kubelet process", found, note)


@pytest.mark.parametrize("place", ["proc/812/root/etc/kubelet.yaml", "host/etc/kubelet.yaml"])
@pytest.mark.parametrize(
    "arguments", [["--config=/etc/kubelet.yaml"], ["--config", "/etc/./kubelet.yaml"]]
)
def test_the_file_that_its_config_flag_names(
    host: HostPicture, place: str, arguments: list[str]
) -> None:
    host.process(812, "kubelet", "kubelet", *arguments)
    host.file(place, "cgroupDriver: systemd\n")
    assert process_finding(host.roots, DRIVER).found == "systemd"


def test_the_kubelets_own_view_of_its_file_comes_first(host: HostPicture) -> None:
    host.process(812, "kubelet", "kubelet", "--config=/k.yaml")
    host.file("proc/812/root/k.yaml", "cgroupDriver: systemd\n")
    host.file("host/k.yaml", "cgroupDriver: cgroupfs\n")
    assert process_finding(host.roots, DRIVER).found == "systemd"


def test_a_relative_config_file_is_in_its_working_directory(host: HostPicture) -> None:
    host.process(812, "kubelet", "kubelet", "--config=k.yaml")
    host.file("proc/812/cwd/k.yaml", "cgroupDriver: systemd\n")
    assert process_finding(host.roots, DRIVER).found == "systemd"


def test_a_flag_goes_before_its_config_file(host: HostPicture) -> None:
    host.process(812, "kubelet", "kubelet", "--config=/k.yaml", "--cgroup-driver=cgroupfs")
    host.file("host/k.yaml", "cgroupDriver: systemd\n")
    assert process_finding(host.roots, DRIVER).found == "cgroupfs"


def test_a_config_path_of_garbage_is_quoted(host: HostPicture) -> None:
    host.process(812, "kubelet")
    host.file("proc/812/cmdline", b"kubelet\0--config=/\xff\n\0")
    finding = process_finding(host.roots, DRIVER)
    assert finding.found is None
    assert finding.note.encode().isascii()
    assert "\n" not in finding.note


def test_the_kubelet_by_its_whole_name(host: HostPicture) -> None:
    host.process(900, "kubelet", "kubelet", "--cgroup-driver=cgroupfs")
    host.process(9, "kubelet-helper", "kubelet", "--cgroup-driver=systemd")
    kubelet = find_kubelet(host.roots)
    assert isinstance(kubelet, KubeletProcess)
    assert kubelet.pid == 900


def test_no_kubelet(host: HostPicture) -> None:
    host.process(1, "systemd")
    host.folder("proc/77")
    host.file("proc/uptime", "1 1")
    assert find_kubelet(host.roots) == Gap(f"no process named kubelet in {host.roots.proc}")


def test_no_procfs(host: HostPicture) -> None:
    os.rename(host.roots.proc, f"{host.top}/elsewhere")
    assert process_finding(host.roots, DRIVER) == Finding(
        "kubelet process", None, f"{host.roots.proc} is not readable: No such file or directory"
    )


def test_a_command_line_that_cannot_be_read(host: HostPicture) -> None:
    host.file("proc/812/comm", "kubelet\n")
    host.status(812)
    assert process_finding(host.roots, DRIVER).note == (
        f"{host.roots.proc}/812/cmdline is not readable: No such file or directory"
    )


def test_a_command_line_of_ten_megabytes(host: HostPicture) -> None:
    """What is in the first part counts; the argument that the bound cuts through does not."""
    host.process(812, "kubelet", "kubelet", "--cgroup-driver=systemd", "x" * 10_000_000)
    assert process_finding(host.roots, DRIVER) == Finding(
        "kubelet process",
        "systemd",
        "pid 812, command line longer than 1024 KiB, the rest was not read: --cgroup-driver",
    )
    kubelet = find_kubelet(host.roots)
    assert isinstance(kubelet, KubeletProcess)
    assert kubelet.arguments == ("kubelet", "--cgroup-driver=systemd")


def test_one_argument_of_ten_megabytes(host: HostPicture) -> None:
    host.file("proc/812/comm", "kubelet\n")
    host.status(812)
    host.file("proc/812/cmdline", b"--cgroup-driver=systemd" * 500_000)
    finding = process_finding(host.roots, DRIVER)
    assert finding.found is None
    assert "the rest was not read" in finding.note


@pytest.mark.parametrize(
    ("content", "name"),
    [("systemd\n", "systemd"), ("a b\n", "a b"), ("", ""), ("x" * 99, "x" * 32)],
)
def test_the_name_of_a_process(host: HostPicture, content: str, name: str) -> None:
    host.file("proc/1/comm", content)
    assert process_name(host.roots, 1) == name


# The kubelet's cgroup root.


@pytest.mark.parametrize(
    ("config", "arguments", "root"),
    [
        ("", [], None),
        ("cgroupRoot: /kubelet", [], "kubelet"),
        ("cgroupRoot: kubelet", [], "kubelet"),
        ("cgroupRoot: /", [], ""),
        ("cgroupRoot: /a/b/", [], "a/b"),
        ("cgroupRoot: ../etc", [], None),
        ("cgroupRoot: /kubelet", ["--cgroup-root=/other"], "other"),
        ("cgroupRoot: /kubelet", ["--cgroup-root", "/other"], "other"),
        ("cgroupRoot: /kubelet", ["--cgroup-root=/"], ""),
        ("cgroupRoot: /kubelet", ["--cgroup-root=.."], "kubelet"),
    ],
)
def test_the_cgroup_root(
    host: HostPicture, config: str, arguments: list[str], root: str | None
) -> None:
    host.kubelet_file(CONFIG, config)
    host.process(812, "kubelet", "kubelet", *arguments)
    assert kubelet_cgroup_root(host.roots) == root


def test_the_cgroup_root_in_a_flags_file(host: HostPicture) -> None:
    host.kubelet_file(FLAGS, 'KUBELET_KUBEADM_ARGS="--cgroup-root=/kubelet --x"')
    assert kubelet_cgroup_root(host.roots) == "kubelet"


def test_no_kubelet_at_all_has_no_cgroup_root(host: HostPicture) -> None:
    """Which is not the same as one at the top."""
    assert kubelet_cgroup_root(host.roots) is None


# Garbage everywhere.

GARBAGE = st.binary(max_size=200)


@settings(max_examples=50, deadline=None)
@given(config=GARBAGE, flags=GARBAGE, comm=GARBAGE | st.just(b"kubelet\n"), cmdline=GARBAGE)
def test_garbage_in_every_file_never_raises(
    config: bytes, flags: bytes, comm: bytes, cmdline: bytes
) -> None:
    with tempfile.TemporaryDirectory() as top:
        host = HostPicture(top)
        host.kubelet_file(CONFIG, config)
        host.kubelet_file(FLAGS, flags)
        host.file("proc/7/comm", comm)
        host.status(7)
        host.file("proc/7/cgroup", config)
        host.file("proc/7/cmdline", b"kubelet\0--config=" + cmdline)
        for setting in (DRIVER, CGROUP_ROOT):
            for finding in (
                *file_findings(host.roots, setting),
                process_finding(host.roots, setting),
            ):
                assert finding.note.encode()
        assert (kubelet_cgroup_root(host.roots) or "").encode().isascii()
