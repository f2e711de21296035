"""What of a scratch tree can be tried in plain folders; tests/kernel/test_example_node.py has the
rest.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.demo.cgroup_tree import CannotBuildTreeError
from slackwater.demo.scratch_tree import ScratchTree, scratch_tree
from slackwater.model.cgroup import CgroupMounts
from tests.unit.demo.test_cgroup_tree import mounts


def pod(name: str, *ids: str, phase: str = "Running", tier: str = "BestEffort") -> Pod:
    statuses = [{"name": f"c{n}", "containerID": each} for n, each in enumerate(ids)]
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "batch", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": f"c{n}"} for n in range(len(ids))] or [{"name": "c"}]},
        "status": {"phase": phase, "qosClass": tier, "containerStatuses": statuses},
    }
    return read_pod(document, "pod.yaml")


class MadePaths(ScratchTree):
    """Plain folders take no weights."""

    def __init__(self, found: CgroupMounts) -> None:
        super().__init__(found, 2)
        self.made: list[str] = []

    def _make(self, path: str) -> None:
        self.made.append(path.removeprefix(f"{self.kubepods}/"))

    def _put(self, path: str, file: str, text: str) -> None:
        pass


def test_groups_are_where_a_kubelet_has_them(tmp_path: Path) -> None:
    tree = MadePaths(mounts(tmp_path))
    a, b = "a" * 64, "b" * 64
    found = tree.make(
        [
            pod("job", f"containerd://{a}", f"containerd://{b}"),
            pod("web", f"containerd://{a}", tier="Burstable"),
            pod("db", f"cri-o://{b}", tier="Guaranteed"),
            pod("bare"),
        ]
    )
    assert tree.made == [
        "burstable", "besteffort", f"besteffort/poduid-job/{a}", f"besteffort/poduid-job/{b}",
        f"burstable/poduid-web/{a}", f"poduid-db/crio-{b}",
        f"besteffort/poduid-bare/{1:064}",
    ]  # fmt: skip
    assert {name: path.removeprefix(f"{tree.kubepods}/") for name, path in found.items()} == {
        "batch/job": f"besteffort/poduid-job/{a}", "batch/web": f"burstable/poduid-web/{a}",
        "batch/db": f"poduid-db/crio-{b}", "batch/bare": f"besteffort/poduid-bare/{1:064}",
    }  # fmt: skip


@pytest.mark.parametrize("pods", [(), (pod("job", phase="Succeeded"),)])
def test_without_pods_that_run_there_is_nothing_to_look_at(
    tmp_path: Path, pods: tuple[Pod, ...]
) -> None:
    with (
        pytest.raises(CannotBuildTreeError, match="no pods"),
        scratch_tree(mounts(tmp_path), 2, pods),
    ):
        pytest.fail("there is a tree")


def test_a_tree_that_cannot_be_made_is_one_sentence_and_is_gone(tmp_path: Path) -> None:
    found = mounts(tmp_path)
    with (
        pytest.raises(CannotBuildTreeError, match=r"no cgroups can be made at .*: No such file"),
        scratch_tree(found, 2, [pod("job")]),
    ):
        pytest.fail("there is a tree")
    assert os.listdir(tmp_path / "cpu") == []


def test_an_id_that_is_no_id_makes_no_path(tmp_path: Path) -> None:
    tree = MadePaths(mounts(tmp_path))
    with pytest.raises(CannotBuildTreeError, match="is not a container id"):
        tree.make([pod("job", "containerd://../../x")])
