"""The tree that was taken against the pods that the API server knows."""

from pathlib import Path

from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.model.gap import Gap
from slackwater.model.needs import Needs
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.observation.survey import SnapshotInputs, TreeGuard

SEEN = Gap("the sight was asked")
HERE, THERE, NOWHERE = "aaaa-1", "bbbb-2", "cccc-3"


class Sight:
    """Answers with a sentence of its own."""

    def __init__(self) -> None:
        self.closed = False

    def close_snapshot(self, _tick: int, _at: Micros, _known: SnapshotInputs) -> NodeSnapshot | Gap:
        return SEEN

    def start_counters(self, _at: Micros, _needs: Needs) -> None:
        """It counts nothing."""

    def close(self) -> None:
        self.closed = True


def pod(uid: str) -> Pod:
    head = {"uid": uid, "name": uid, "namespace": "x"}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": {"containers": []}}
    return read_pod(document, "test")


def look(guard: TreeGuard, *uids: str) -> NodeSnapshot | Gap:
    pods = tuple(pod(uid) for uid in uids)
    return guard.close_snapshot(1, Micros(0), SnapshotInputs(Gap("unknown"), pods=pods))


def guard_in(top: Path, *paths: str) -> TreeGuard:
    for path in paths:
        (top / path).mkdir(parents=True)
    return TreeGuard(Sight(), str(top), "a/kubepods")


def two_trees(top: Path) -> TreeGuard:
    return guard_in(top, f"a/kubepods/burstable/pod{HERE}", f"z/kubepods/pod{THERE}")


def test_pods_of_ours_in_the_tree(tmp_path: Path) -> None:
    assert look(two_trees(tmp_path), HERE, THERE) == SEEN


def test_all_our_pods_are_in_another_tree(tmp_path: Path) -> None:
    guard = two_trees(tmp_path)
    assert look(guard, THERE, NOWHERE) == Gap(
        "a/kubepods has none of this node's 2 pods, and z/kubepods has 1: nothing is written; "
        "name the right tree with --kubepods (in the chart agent.paths.kubepods)"
    )
    assert look(guard, HERE) == SEEN


def test_pods_that_are_nowhere_yet_tell_nothing(tmp_path: Path) -> None:
    assert look(two_trees(tmp_path), NOWHERE) == SEEN
    assert look(two_trees(tmp_path / "more")) == SEEN


def test_a_tree_that_had_a_pod_of_ours_is_right_for_good(tmp_path: Path) -> None:
    """Its last pod may end while a stray group of another is left elsewhere."""
    guard = two_trees(tmp_path)
    look(guard, HERE)
    assert look(guard, THERE) == SEEN


def test_the_only_tree(tmp_path: Path) -> None:
    assert look(guard_in(tmp_path, "a/kubepods"), HERE) == SEEN


def test_it_closes_what_it_guards(tmp_path: Path) -> None:
    snapshot_reader = Sight()
    TreeGuard(snapshot_reader, str(tmp_path), "a/kubepods").close()
    assert snapshot_reader.closed
