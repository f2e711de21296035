"""Whether the tree that was taken is this node's: pods that the API server knows are in it.

Owns the last look before anything is written or released: all other clues may be wrong together.
Reads names only.
"""

from collections.abc import Sequence
from typing import Protocol

from slackwater.contract.kubernetes_pod import Pod
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.observation.kubepods import pod_uids_in, trees_below
from slackwater.observation.survey import Known


class Sight(Protocol):
    """Whom the guard lets look."""

    def close_snapshot(self, tick: int, at: Micros, known: Known) -> NodeSnapshot | Gap: ...

    def close(self) -> None: ...


class TreeGuard:
    """Stands before a sight. Sees nothing while another tree has this node's pods and the one that
    was taken has none; once it had one it is right for good: uids are nobody else's."""

    def __init__(self, sight: Sight, top: str, taken: str) -> None:
        self._sight = sight
        self._top = top
        self._taken = taken
        self._sure = False

    def close_snapshot(self, tick: int, at: Micros, known: Known) -> NodeSnapshot | Gap:
        doubt = None if self._sure else self._doubt(known.pods)
        return doubt or self._sight.close_snapshot(tick, at, known)

    def close(self) -> None:
        self._sight.close()

    def _doubt(self, pods: Sequence[Pod]) -> Gap | None:
        uids = {pod.cgroup_uid for pod in pods}
        if not uids:
            return None
        if uids & pod_uids_in(f"{self._top}/{self._taken}"):
            self._sure = True
            return None
        for path in trees_below(self._top):
            count = len(uids & pod_uids_in(f"{self._top}/{path}"))
            if path != self._taken and count:
                return Gap(
                    f"{self._taken} has none of this node's {len(uids)} pods, and {path} has "
                    f"{count}: nothing is written; name the right tree with --kubepods "
                    "(in the chart agent.paths.kubepods)"
                )
        return None
