"""What a stage executes, and what its tests are told."""

from pathlib import Path

from tools.stages import (
    KERNEL_V1,
    MACHINES,
    NODE,
    PYTHON,
    UNIT,
    VmSuite,
)
from tools.suite_commands import command_of

OUT = Path("/tmp/out")


def machine(name: str) -> VmSuite:
    return next(each for each in MACHINES if each.name == name)


def test_the_command_for_a_machine() -> None:
    environ = {"CI": "true", "HOME": "/root"}
    command, env = command_of(machine("kernel v2"), OUT, environ, {})
    assert env == {}
    assert command[:3] == [PYTHON, "-m", "tools.vm"]
    assert command[3:-3] == [
        *("run", "--init", "cgroupfs", "--kernel", "6.12", "--memory", "2G"),
        *("--clock", "instructions"),
        *("--timeout", "1200", "--out", "/tmp/out"),
        *("--env", "SLACKWATER_TEST_KERNEL=v2", "CI=true", "--"),
    ]
    assert command[-3:-1] == ["sh", "-c"]
    assert command[-1].startswith("exec ")
    assert " -m pytest tests/kernel " in command[-1]
    assert command[-1].endswith(' --junitxml="$SLACKWATER_VM_OUT/junit.xml"')


def test_tests_with_a_kubelet_are_told_where_it_is() -> None:
    command, _ = command_of(machine("kubelet systemd"), OUT, {}, {"kubelet": "/kept/kubelet"})
    assert command[command.index("--env") + 1 : -4] == [
        "SLACKWATER_TEST_KERNEL=v2-systemd",
        "SLACKWATER_KUBELET=/kept/kubelet",
    ]
    assert command[command.index("--memory") + 1] == "3G"
    assert command[command.index("--clock") + 1] == "host"
    assert " -m pytest tests/kubelet " in command[-1]


def test_unit_tests_make_way_for_others() -> None:
    command, env = command_of(UNIT, OUT, {}, {})
    assert command[:6] == ["nice", "-n", "10", PYTHON, "-m", "pytest"]
    assert command[-1] == "--junitxml=/tmp/out/junit.xml"
    assert env == {"PYTHONDONTWRITEBYTECODE": ""}


def test_tests_on_this_kernel_do_not() -> None:
    command, env = command_of(KERNEL_V1, OUT, {}, {})
    assert command[:4] == [PYTHON, "-m", "pytest", "tests/kernel"]
    assert env["SLACKWATER_TEST_KERNEL"] == "v1"
    command, env = command_of(NODE, OUT, {}, {"kubelet": "/kept/kubelet"})
    assert command[:3] == [PYTHON, "-m", "pytest"]
    assert env["SLACKWATER_KUBELET"] == "/kept/kubelet"
