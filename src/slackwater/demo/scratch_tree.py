"""A kubepods tree for a folder of pods on a machine without a kubelet, with two busy processes in
it: what `slackwater agent --standalone DIR --scratch` works on.

It is made before the agent starts and removed when it ends. A tree that a killed agent left is
removed by the next one; its busy processes end by themselves.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from slackwater.contract.kubernetes_pod import Pod
from slackwater.contract.pod_resources import ContainerKind
from slackwater.demo.cgroup_tree import CannotBuildTreeError, OwnTree, clear_leftovers
from slackwater.model.cgroup import CgroupMounts, Driver, Tier
from slackwater.model.units import MilliCpu
from slackwater.model.weight import SMALLEST_SHARES, shares_of
from slackwater.observation.cgroups.paths import (
    KubepodsLayout,
    NotAnId,
    container_directory,
    pod_path,
)

#: How many pods get a busy process each.
BUSY = 2
#: The container of a pod whose object does not say its id.
_FIRST_ID = "0" * 63 + "1"


class ScratchPlace(msgspec.Struct, frozen=True):
    """Where the tree is, below the cgroup root, and the pods with a busy process."""

    kubepods: str
    busy: tuple[str, ...]


class ScratchTree(OwnTree):
    """Groups as a kubelet with the driver cgroupfs lays them out."""

    def make(self, pods: Sequence[Pod]) -> dict[str, str]:
        """The group of each pod's first container, by the pod's full name."""
        try:
            for tier in (Tier.BURSTABLE, Tier.BESTEFFORT):
                self._make(f"{self.kubepods}/{tier.value}")
            self._weigh(self.top, shares_of(MilliCpu(1000 * self.cpus)))
            self._weigh(f"{self.kubepods}/{Tier.BESTEFFORT.value}", SMALLEST_SHARES)
            return {f"{pod.namespace}/{pod.name}": self._make_pod(pod) for pod in pods}
        except NotAnId as error:
            raise CannotBuildTreeError(str(error)) from None
        except OSError as error:
            where = error.filename or self.top
            raise CannotBuildTreeError(
                f"no cgroups can be made at {where}: {error.strerror}"
            ) from error

    def _make_pod(self, pod: Pod) -> str:
        directory = pod_path(KubepodsLayout(Driver.CGROUPFS, self.top), pod.tier, pod.cgroup_uid)
        running = [each for each in pod.resources.containers if each.kind is ContainerKind.MAIN]
        ids = [each.id for each in running if each.id] or [_FIRST_ID]
        paths = [f"{directory}/{container_directory(Driver.CGROUPFS, each)}" for each in ids]
        for path in paths:
            self._make(path)
        return paths[0]


@contextmanager
def scratch_tree(mounts: CgroupMounts, cpus: int, pods: Sequence[Pod]) -> Iterator[ScratchPlace]:
    """Until the block ends. Raises CannotBuildTreeError."""
    there = [pod for pod in pods if not pod.is_finished()]
    if not there:
        raise CannotBuildTreeError("the folder has no pods, so there is nothing to look at")
    clear_leftovers(mounts)
    tree = ScratchTree(mounts, cpus)
    busy: list[subprocess.Popen[bytes]] = []
    try:
        groups = dict(list(tree.make(there).items())[:BUSY])
        for path in groups.values():
            busy.append(_start_busy_process())
            tree.enter(path, busy[-1].pid)
        yield ScratchPlace(tree.kubepods, tuple(groups))
    finally:
        for process in busy:
            process.kill()
            process.communicate()
        tree.remove()


def _start_busy_process() -> subprocess.Popen[bytes]:
    """It ends with its standard input, so when this process does, however that ends. Ctrl-C is
    for the agent: the process is in a group of its own."""
    command = [sys.executable, "-m", "slackwater.demo.hog"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)
