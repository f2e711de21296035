"""A kubelet's settings in the text of its files and of its command line."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.observation.detection.kubelet import (
    CGROUP_ROOT,
    CONFIG_FLAG,
    DRIVER,
    Said,
    arguments_of,
    flag_values,
    setting_in_arguments,
    setting_in_text,
)

KUBEADM = """\
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
kind: KubeletConfiguration
"""
KIND = """\
cgroupDriver: systemd
cgroupRoot: /kubelet
failSwapOn: false
"""


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("cgroupDriver: systemd", "systemd"),
        ('cgroupDriver: "systemd"', "systemd"),
        ("X --cgroup-driver cgroupfs", "cgroupfs"),
        ("--cgroup-driver=systemd", "systemd"),
    ],
)
def test_row_51_driver_in_a_file(text: str, driver: str) -> None:
    """The second and fourth are where Volcano finds nothing; compatibility.md overrules it."""
    assert setting_in_text(text.encode(), DRIVER).value == driver


@pytest.mark.parametrize(
    ("text", "value", "note"),
    [
        (KUBEADM, "systemd", "cgroupDriver"),
        ("cgroupDriver: cgroupfs\n", "cgroupfs", "cgroupDriver"),
        ("cgroupDriver: 'systemd'", "systemd", "cgroupDriver"),
        ("cgroupDriver: systemd # why", "systemd", "cgroupDriver"),
        ('cgroupDriver: "systemd" # why', "systemd", "cgroupDriver"),
        ("cgroupDriver:systemd", "systemd", "cgroupDriver"),
        ("cgroupDriver :   systemd  \r\n", "systemd", "cgroupDriver"),
        ("  kubelet: |\n    cgroupDriver: systemd\n", "systemd", "cgroupDriver"),
        ('{"kind": "K", "cgroupDriver": "systemd"}', "systemd", "cgroupDriver"),
        ('{"cgroupDriver":"cgroupfs","x":1}', "cgroupfs", "cgroupDriver"),
        ('{\n  "cgroupDriver": "systemd",\n  "x": 1\n}\n', "systemd", "cgroupDriver"),
        ("{cgroupDriver: systemd}", "systemd", "cgroupDriver"),
        ("cgroupDriver: nothing\ncgroupDriver: systemd", "systemd", "cgroupDriver"),
        ("# cgroupDriver: cgroupfs\ncgroupDriver: systemd", "systemd", "cgroupDriver"),
        ('KUBELET_KUBEADM_ARGS="--cgroup-driver=systemd --x=y"', "systemd", "--cgroup-driver"),
        ('KUBELET_KUBEADM_ARGS="--x --cgroup-driver systemd"', "systemd", "--cgroup-driver"),
        ("KUBELET_EXTRA_ARGS=--cgroup-driver=cgroupfs", "cgroupfs", "--cgroup-driver"),
        ("A='--cgroup-driver=systemd'", "systemd", "--cgroup-driver"),
        ('--cgroup-driver="systemd"', "systemd", "--cgroup-driver"),
        ('--cgroup-driver "systemd" --y', "systemd", "--cgroup-driver"),
        ("--cgroup-driver\n  systemd", "systemd", "--cgroup-driver"),
        ("--cgroup-driver=systemd\\\n --y", "systemd", "--cgroup-driver"),
        ("--cgroup-driver=cgroupfs\ncgroupDriver: systemd", "systemd", "cgroupDriver"),
        ("#--cgroup-driver=cgroupfs\n--cgroup-driver=systemd", "systemd", "--cgroup-driver"),
    ],
)
def test_spellings_that_count(text: str, value: str, note: str) -> None:
    assert setting_in_text(text.encode(), DRIVER) == Said(value, note)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("", "cgroupDriver is not set"),
        ("# cgroupDriver: systemd", "cgroupDriver is not set"),
        ("x: y # --cgroup-driver=systemd", "cgroupDriver is not set"),
        ("notcgroupDriver: systemd", "cgroupDriver is not set"),
        ("cgroupDriverName: systemd", "cgroupDriver is not set"),
        ("cgroupDriver:", "cgroupDriver is not set"),
        ("x--cgroup-driver=systemd", "cgroupDriver is not set"),
        ("--cgroup-driver-name=systemd", "cgroupDriver is not set"),
        ("--cgroup-driver", "cgroupDriver is not set"),
        ("cgroupDriver: Systemd", "cgroupDriver is 'Systemd', which is not a valid value"),
        ("cgroupDriver: systemd#x", "cgroupDriver is 'systemd#x', which is not a valid value"),
        ('cgroupDriver: ""', "cgroupDriver is '', which is not a valid value"),
        ("--cgroup-driver=auto", "--cgroup-driver is 'auto', which is not a valid value"),
        (f"cgroupDriver: {'x' * 99}", f"cgroupDriver is '{'x' * 40}', which is not a valid value"),
        ("cgroupDriver: systemd\0", "not a text file: it contains NUL bytes"),
    ],
)
def test_spellings_that_do_not_count_say_why(text: str, note: str) -> None:
    assert setting_in_text(text.encode(), DRIVER) == Said(None, note)


@pytest.mark.parametrize(
    ("text", "root"),
    [
        (KIND, "/kubelet"),
        ('cgroupRoot: "/kubelet"', "/kubelet"),
        ("cgroupRoot: /", "/"),
        ("cgroupRoot: /a/b-c", "/a/b-c"),
        ("--cgroup-root=kubelet.slice", "kubelet.slice"),
        ("--cgroup-root /kubelet", "/kubelet"),
        ('cgroupRoot: ""', None),
        ("cgroupRoot: ../../etc", None),
        ("cgroupRoot: /a/../b", None),
        ("cgroupRoot: //a", None),
        (KUBEADM, None),
    ],
)
def test_cgroup_roots(text: str, root: str | None) -> None:
    assert setting_in_text(text.encode(), CGROUP_ROOT).value == root


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("kubelet", "--cgroup-driver=systemd"), "systemd"),
        (("kubelet", "--cgroup-driver", "systemd"), "systemd"),
        (("kubelet", "--cgroup-driver=cgroupfs", "--cgroup-driver=systemd"), "systemd"),
        (("kubelet", "--cgroup-driver=systemd", "--cgroup-driver=x"), "systemd"),
        (("kubelet", "--cgroup-driver"), None),
        (("kubelet", "--cgroup-driver="), None),
        (("kubelet", "--cgroup-drivers=systemd"), None),
        (("kubelet", "cgroup-driver=systemd"), None),
        (("kubelet",), None),
        ((), None),
    ],
)
def test_a_flag_on_the_command_line(arguments: tuple[str, ...], value: str | None) -> None:
    assert setting_in_arguments(arguments, DRIVER).value == value


def test_config_flags_in_order_and_not_their_neighbours() -> None:
    arguments = ("kubelet", "--config=/a", "--config-dir=/no", "--config", "/b", "--config")
    assert flag_values(arguments, CONFIG_FLAG) == ["/a", "/b"]


def test_a_command_line_of_the_kernel() -> None:
    assert arguments_of(b"kubelet\0--a b\0\0") == ("kubelet", "--a b", "", "")


GARBAGE = st.binary(max_size=300)
WORDS = ("cgroupDriver", "cgroupRoot", "--cgroup-driver", "--cgroup-root", "systemd", "cgroupfs")
SIGNS = tuple(":=\"'#,{}\\\n \t\r/.\udc80é")
CRUMBS = st.lists(st.sampled_from(WORDS + SIGNS)).map("".join)


@given(GARBAGE | CRUMBS.map(lambda text: text.encode(errors="surrogateescape")))
@example(b'cgroupDriver: "')
@example(b"\xff\xfecgroupDriver: systemd")
def test_garbage_in_a_file_never_raises(data: bytes) -> None:
    assert setting_in_text(data, DRIVER).value in (None, "systemd", "cgroupfs")
    root = setting_in_text(data, CGROUP_ROOT).value
    assert root is None or not {"", ".", ".."} & set(root.strip("/").split("/")) or root == "/"


@given(GARBAGE)
def test_garbage_on_a_command_line_never_raises(data: bytes) -> None:
    said = setting_in_arguments(arguments_of(data), DRIVER)
    assert said.value in (None, "systemd", "cgroupfs")
    assert said.note.encode()


@given(
    st.sampled_from(["systemd", "cgroupfs"]),
    st.text(string.ascii_letters + "0123456789: -\n", max_size=100),
)
def test_a_key_after_any_harmless_text_is_found(driver: str, before: str) -> None:
    text = f"{before}\ncgroupDriver: {driver}\n"
    assert setting_in_text(text.encode(), DRIVER).value == driver


@pytest.mark.parametrize(
    "piece", [b"\n", b" ", b"{ ", b", ", b"cgroupDriver:\n", b"--cgroup-driver\n", b' "', b"#"]
)
def test_a_mebibyte_of_anything_takes_no_time(piece: bytes) -> None:
    """The regular expressions are linear: else this would take hours."""
    data = piece * (1024 * 1024 // len(piece))
    assert setting_in_text(data, DRIVER).value is None
