"""The figure of a real uninstallation: from a test's report, or why there is none."""

import dataclasses
from pathlib import Path

import pytest

from slackwater.model.gap import Gap
from tools import uninstall_on_node
from tools.host_kernel import HostKernel
from tools.stages import NODE, PYTHON, Preparation
from tools.uninstall_on_node import UninstallTestError, uninstall_seconds

ROOTS = HostKernel(is_root=True, v1_cpu="/sys/fs/cgroup/cpu", v2_cpu=None, writable=True)
#: As the real test notes them.
SECONDS = "request.node.user_properties.append(('seconds', 12.5))"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of root, which lacks nothing."""
    monkeypatch.setattr(uninstall_on_node, "look_at_host", lambda: ROOTS)
    monkeypatch.setattr(uninstall_on_node, "NODE", dataclasses.replace(NODE, needs=()))


def instead(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """Another test in the place of the real one."""
    test = folder / "test_it.py"
    test.write_text(f"def test_it(request):\n    {body}\n")
    monkeypatch.setattr(uninstall_on_node, "_TEST", f"{test}::test_it")


def test_the_seconds_that_the_test_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, tmp_path, SECONDS)
    assert uninstall_seconds(tmp_path) == 12.5


def test_a_test_that_fails_is_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, tmp_path, f"{SECONDS}; raise ValueError('a quota')")
    with pytest.raises(UninstallTestError, match="ValueError: a quota"):
        uninstall_seconds(tmp_path)


def test_who_is_not_root_hears_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    somebody = dataclasses.replace(ROOTS, is_root=False)
    monkeypatch.setattr(uninstall_on_node, "look_at_host", lambda: somebody)
    assert uninstall_seconds(tmp_path) == Gap("only root can make cgroups and namespaces")


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = (PYTHON, "-c", "print('cluster: runc is missing'); raise SystemExit(1)")
    needs = (Preparation("a node", check, ()),)
    monkeypatch.setattr(uninstall_on_node, "NODE", dataclasses.replace(NODE, needs=needs))
    assert uninstall_seconds(tmp_path) == Gap("runc is missing")
