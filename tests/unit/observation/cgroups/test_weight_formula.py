"""Which formula a node's writers use: evidence that is read rarely, and never our own."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from slackwater.model.cgroup import CgroupVersion, Level
from slackwater.model.gap import Gap
from slackwater.model.needs import PODS, Needs, ReadingField
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.weight import Shares, WeightFormula, weight_of
from slackwater.observation.cgroups.tree import CgroupTree, Scan
from slackwater.observation.cgroups.weight_formula import FormulasInForce, FormulaWatch
from slackwater.observation.survey import SnapshotInputs, Surveyor
from tests.unit.observation.plain_tree import CONTAINER, UID, PlainTree, by_path

if TYPE_CHECKING:
    from slackwater.observation.host import NodeUsageMeter

LINEAR, QUADRATIC = WeightFormula.LINEAR, WeightFormula.QUADRATIC
TWO_CPUS = MilliCpu(2000)
MINUTE = 60_000_000
NOTHING: frozenset[int] = frozenset()
START = Micros(0)


class Tree:
    """kubepods and one pod with a single heavy container, weighed by two formulas."""

    def __init__(self, plain: PlainTree) -> None:
        self.plain = plain
        self.tree = CgroupTree(plain.mounts, "kubepods")
        self.watch = FormulaWatch(self.tree)
        self.pod = f"kubepods/burstable/pod{UID.format(1)}"
        self.inner = plain.make(f"{self.pod}/{CONTAINER.format(1)}")

    def weigh(self, pods: WeightFormula, containers: WeightFormula) -> None:
        self.put("kubepods", weight_of(Shares(2048), pods))
        self.put(self.pod, weight_of(Shares(512), pods))
        self.put(self.inner, weight_of(Shares(512), containers))

    def put(self, path: str, weight: int) -> None:
        self.plain.put(path, "cpu.weight", f"{weight}\n")

    def scan(self) -> Scan:
        return self.tree.scan()

    def formulas(self, at: int = 0, ours: frozenset[int] = NOTHING) -> FormulasInForce:
        return self.watch.formulas(self.scan(), TWO_CPUS, ours, Micros(at))


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    made = Tree(PlainTree(tmp_path, CgroupVersion.V2))
    yield made
    made.tree.close()


@pytest.mark.parametrize("pods", [LINEAR, QUADRATIC])
@pytest.mark.parametrize("containers", [LINEAR, QUADRATIC])
def test_kubelet_and_runtime_may_differ(
    tree: Tree, pods: WeightFormula, containers: WeightFormula
) -> None:
    tree.weigh(pods, containers)
    assert tree.formulas() == FormulasInForce(pods, containers)


def test_it_is_asked_again_after_five_minutes(tree: Tree) -> None:
    tree.weigh(LINEAR, LINEAR)
    tree.formulas()
    tree.weigh(QUADRATIC, QUADRATIC)
    assert tree.formulas(5 * MINUTE - 1).pods is LINEAR
    assert tree.formulas(5 * MINUTE) == FormulasInForce(QUADRATIC, QUADRATIC)


@pytest.mark.parametrize(("more", "asked"), [(1, LINEAR), (3, QUADRATIC)])
def test_it_is_asked_again_when_the_tree_changed_much(
    tree: Tree, more: int, asked: WeightFormula
) -> None:
    tree.weigh(LINEAR, LINEAR)
    tree.formulas()
    tree.weigh(QUADRATIC, QUADRATIC)
    for number in range(more):
        path = tree.plain.make(f"kubepods/pod{UID.format(5 + number)}")
        tree.put(path, 1)
    assert tree.formulas().pods is asked


def test_our_own_weights_are_no_evidence(tree: Tree) -> None:
    """Else a guess would confirm itself."""
    tree.weigh(LINEAR, QUADRATIC)
    refs = by_path(tree.scan())
    ours = frozenset({refs[tree.inner].id})
    found = tree.formulas(ours=ours)
    assert found.pods is LINEAR
    assert isinstance(found.containers, Gap)


def test_best_effort_weights_are_no_evidence(tree: Tree) -> None:
    """They are ours, also where nobody knows so: after a lost ledger, and in `doctor`."""
    tree.weigh(LINEAR, QUADRATIC)
    for number in range(2, 9):
        pod = f"kubepods/besteffort/pod{UID.format(number)}"
        inner = tree.plain.make(f"{pod}/{CONTAINER.format(number)}")
        tree.put(pod, 300)
        tree.put(inner, 300)
    assert tree.formulas() == FormulasInForce(LINEAR, QUADRATIC)


def test_what_was_known_stays_known(tree: Tree) -> None:
    tree.weigh(QUADRATIC, QUADRATIC)
    tree.formulas()
    tree.put("kubepods", 1)
    tree.put(tree.inner, 1)
    assert tree.formulas(5 * MINUTE) == FormulasInForce(QUADRATIC, QUADRATIC)


def test_no_evidence(tree: Tree) -> None:
    tree.put("kubepods", 1)
    found = tree.formulas()
    assert isinstance(found.pods, Gap)
    assert isinstance(found.containers, Gap)


def test_a_node_of_unknown_size_proves_nothing(tree: Tree) -> None:
    tree.weigh(LINEAR, LINEAR)
    found = tree.watch.formulas(tree.scan(), Gap("not stated"), NOTHING, START)
    assert isinstance(found.pods, Gap)
    assert tree.formulas().pods is LINEAR  # once it is known it is asked at once


def test_v1_has_no_formula(tmp_path: Path) -> None:
    tree = Tree(PlainTree(tmp_path, CgroupVersion.V1))
    try:
        assert isinstance(tree.formulas().pods, Gap)
    finally:
        tree.tree.close()


class NoUsage:
    """A meter of a node whose usage nobody knows."""

    def read(self) -> Gap:
        return Gap("not measured")

    def close(self) -> None:
        """Nothing is open."""


WEIGHTS = Needs({Level.POD: frozenset({ReadingField.WEIGHT})})


@pytest.mark.parametrize(
    ("needs", "found"), [(WEIGHTS, (QUADRATIC, QUADRATIC)), (PODS, (LINEAR, LINEAR))]
)
def test_a_snapshot_says_it_where_weights_are_needed(
    tree: Tree, needs: Needs, found: tuple[WeightFormula, WeightFormula]
) -> None:
    tree.weigh(QUADRATIC, QUADRATIC)
    surveyor = Surveyor(tree.tree, cast("NodeUsageMeter", NoUsage()))
    fields = {**needs.fields, Level.CONTAINER: needs.at(Level.POD)}
    seen = surveyor.close_snapshot(1, START, SnapshotInputs(TWO_CPUS, needs=Needs(fields)))
    assert isinstance(seen, NodeSnapshot)
    assert (seen.pod_formula, seen.container_formula) == found


def test_without_evidence_it_is_the_kubelets_own(tree: Tree) -> None:
    tree.put("kubepods", 1)
    surveyor = Surveyor(tree.tree, cast("NodeUsageMeter", NoUsage()))
    seen = surveyor.close_snapshot(1, START, SnapshotInputs(TWO_CPUS, needs=WEIGHTS))
    assert isinstance(seen, NodeSnapshot)
    assert (seen.pod_formula, seen.container_formula) == (LINEAR, LINEAR)


def test_a_weight_that_is_ours_is_left_out_of_a_snapshots_evidence(tree: Tree) -> None:
    tree.weigh(LINEAR, QUADRATIC)
    inner = by_path(tree.scan())[tree.inner]
    needs = Needs({Level.CONTAINER: frozenset({ReadingField.WEIGHT})})
    for held, found in (((), QUADRATIC), ((Held(inner, "weight", 1, 59, START),), LINEAR)):
        surveyor = Surveyor(tree.tree, cast("NodeUsageMeter", NoUsage()))
        seen = surveyor.close_snapshot(1, START, SnapshotInputs(TWO_CPUS, needs=needs, held=held))
        assert isinstance(seen, NodeSnapshot)
        assert seen.container_formula is found
