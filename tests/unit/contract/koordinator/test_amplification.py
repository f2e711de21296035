"""What becomes of each write of a Node's status: a row for each kind, and the laws of all."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from slackwater.contract.koordinator.amplification import (
    RECORD_ANNOTATION,
    NodeAmounts,
    NodeChanges,
    amplify_node,
    json_patch,
    multiply,
    read_ratios,
)
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
)
from slackwater.model.gap import Gap
from slackwater.model.units import Ratio, parse_quantity

RATIO, RAW, RECORD = AMPLIFICATION_ANNOTATION, RAW_ALLOCATABLE_ANNOTATION, RECORD_ANNOTATION


def cpu_node(
    cpu: str, annotations: Mapping[str, str] | None = None, capacity: str = "256"
) -> NodeAmounts:
    return NodeAmounts("n1", {"cpu": capacity}, {"cpu": cpu}, annotations or {})


def changed(node: NodeAmounts, changes: NodeChanges) -> NodeAmounts:
    """What is stored once the patch was applied, as the API server applies it."""
    annotations, allocatable = dict(node.annotations), dict(node.allocatable)
    stored: dict[str, dict[str, dict[str, object]]] = {
        "metadata": {"annotations": {**annotations}},
        "status": {"allocatable": {**allocatable}},
    }
    for each in json_patch(node, changes):
        top, middle, *below = str(each["path"])[1:].split("/")
        if not below:
            assert (top, middle, each["value"], annotations) == ("metadata", "annotations", {}, {})
            continue
        last = below[0].replace("~1", "/").replace("~0", "~")
        if each["op"] == "remove":
            del stored[top][middle][last]
        else:
            assert each["op"] == "add" or last in stored[top][middle]
            stored[top][middle][last] = each["value"]
    kept = {name: str(text) for name, text in stored["metadata"]["annotations"].items()}
    amounts = {name: str(text) for name, text in stored["status"]["allocatable"].items()}
    return NodeAmounts(node.name, node.capacity, amounts, kept)


def recorded(stored: str, raw: str, ratio: str, **more: bool) -> dict[str, str]:
    """The annotations of a node that is amplified."""
    record = {"ratio": ratio, "cpu": {"stored": stored, "raw": raw, **more}}
    return {RATIO: ratio, RAW: json.dumps({"cpu": raw}), RECORD: json.dumps(record)}


BY_KUBELET = recorded("12", "8", '{"cpu":1.50}', kubelet=True)
BY_OTHERS = recorded("12", "8", '{"cpu":1.50}')
ASKED = recorded("11999m", "8", '{"cpu":1.50}', kubelet=True, asks=True)
OF_KOORDINATOR = {RATIO: '{"cpu":1.50}', RAW: '{"cpu":"8"}'}
HALF_MORE = {RATIO: '{"cpu":1.50}'}
DOUBLE = {RATIO: '{"cpu":2.00}'}


@pytest.mark.parametrize(
    ("stored", "sent", "by_kubelet", "expected"),
    [
        # The kubelet states a true amount.
        (cpu_node("8"), cpu_node("10", HALF_MORE), True, ("15", "10")),
        (cpu_node("12", BY_KUBELET), cpu_node("8", BY_KUBELET), True, ("12", "8")),
        (cpu_node("12", BY_KUBELET), cpu_node("6", BY_KUBELET), True, ("9", "6")),
        # Its first write after the ratio came changes nothing: what is stored is true.
        (cpu_node("8", HALF_MORE), cpu_node("8", HALF_MORE), True, ("12", "8")),
        # Everybody else's write, with the amount as it is stored.
        (cpu_node("8", HALF_MORE), cpu_node("8", HALF_MORE), False, ("12", "8")),
        (cpu_node("12", BY_KUBELET), cpu_node("12", BY_KUBELET), False, ("12", "8")),
        # The ratio was changed.
        (cpu_node("12", BY_KUBELET), cpu_node("12", BY_KUBELET | DOUBLE), False, ("16", "8")),
        (cpu_node("12", BY_KUBELET), cpu_node("8", BY_KUBELET | DOUBLE), True, ("16", "8")),
        # Somebody else changes the amount of a node whose kubelet states it, or of one without.
        (cpu_node("12", BY_KUBELET), cpu_node("100", BY_KUBELET), False, ("12", "8")),
        (cpu_node("12", BY_OTHERS), cpu_node("10", BY_OTHERS), False, ("15", "10")),
        # The kubelet stated another amount while no webhook was there.
        (cpu_node("10", BY_KUBELET), cpu_node("10", BY_KUBELET), False, ("15", "10")),
        (cpu_node("10", BY_KUBELET), cpu_node("10", BY_KUBELET), True, ("15", "10")),
        (cpu_node("10", BY_KUBELET), cpu_node("11", BY_KUBELET), False, ("15", "10")),
        # The true amount became equal to the amplified one: seen by the capacity, or asked for.
        (cpu_node("12", BY_KUBELET), cpu_node("12", BY_KUBELET, "12"), True, ("18", "12")),
        (cpu_node("12", BY_KUBELET), cpu_node("12", BY_KUBELET), True, ("11999m", "8")),
        (cpu_node("11999m", ASKED), cpu_node("12", ASKED), True, ("18", "12")),
        (cpu_node("11999m", ASKED), cpu_node("8", ASKED), True, ("12", "8")),
        (cpu_node("11999m", ASKED), cpu_node("11999m", ASKED), True, ("11998m", "8")),
        (cpu_node("11999m", ASKED), cpu_node("11999m", ASKED), False, ("11999m", "8")),
        # Koordinator was here before, or somebody removed our record.
        (cpu_node("12", OF_KOORDINATOR), cpu_node("12", OF_KOORDINATOR), False, ("12", "8")),
        (cpu_node("12", OF_KOORDINATOR), cpu_node("8", OF_KOORDINATOR), True, ("12", "8")),
        (cpu_node("12", OF_KOORDINATOR), cpu_node("12", OF_KOORDINATOR), True, ("11999m", "8")),
        # More than there is cannot be a true amount.
        (cpu_node("12", HALF_MORE, "8"), cpu_node("12", HALF_MORE, "8"), False, ("11999m", None)),
        # The ratio is gone.
        (cpu_node("12", BY_KUBELET), cpu_node("12", {RAW: ""}), False, ("8", None)),
        (cpu_node("12", BY_KUBELET), cpu_node("10", {RAW: ""}), True, ("10", None)),
        (cpu_node("12", BY_KUBELET), cpu_node("12", {RAW: ""}), True, ("8", None)),
        (cpu_node("12", {RAW: '{"cpu":"8"}'}), cpu_node("12", {RAW: ""}), False, ("8", None)),
        # Rows 37 and 39 of Koordinator's: nothing to amplify, the true amount is recorded.
        (cpu_node("1"), cpu_node("1000m", {RATIO: '{"cpu": 0.5}'}), True, ("1000m", "1000m")),
        (cpu_node("1"), cpu_node("1000m", {RATIO: '{"cpu": 1}'}), True, ("1000m", "1000m")),
        (cpu_node("4"), cpu_node("4", {RATIO: '{"eni": 2}'}), True, ("4", "4")),
    ],
)
def test_each_write(
    stored: NodeAmounts, sent: NodeAmounts, by_kubelet: bool, expected: tuple[str, str | None]
) -> None:
    kept = changed(sent, amplify_node(stored, sent, by_kubelet=by_kubelet))
    raw = json.loads(kept.annotations[RAW])["cpu"] if RAW in kept.annotations else None
    assert (kept.allocatable["cpu"], raw) == expected
    if RATIO not in sent.annotations:
        assert not kept.annotations
    else:
        assert json.loads(kept.annotations[RECORD])["cpu"]["stored"] == kept.allocatable["cpu"]


@pytest.mark.parametrize(
    ("before", "stated", "raw"),
    [
        ({"cpu": "4"}, {"cpu": "5"}, {"cpu": "5"}),
        ({"cpu": "4"}, {"cpu": "4", "memory": "2Gi"}, {"cpu": "4", "memory": "2Gi"}),
        ({"cpu": "4", "memory": "2Gi"}, {"cpu": "4"}, {"cpu": "4"}),
        (
            {"cpu": "4", "ephemeral-storage": "80"},
            {"cpu": "4", "ephemeral-storage": "100"},
            {"cpu": "4"},
        ),
        ({"cpu": "4"}, {"cpu": "4"}, {"cpu": "4"}),
        ({}, {"cpu": "4"}, {"cpu": "4"}),
    ],
)
def test_row_41_what_the_kubelet_states_anew(
    before: dict[str, str], stated: dict[str, str], raw: dict[str, str]
) -> None:
    """Row 41 of the facts about Koordinator: cpu and memory alone are amplified, where they are."""
    capacity = {"cpu": "256", "memory": "1024Gi", "ephemeral-storage": "500"}
    first = NodeAmounts("n1", capacity, before, {RATIO: '{"cpu":1.50,"memory":1.50}'})
    stored = changed(first, amplify_node(first, first, by_kubelet=True))
    sent = NodeAmounts("n1", capacity, stated, stored.annotations)
    kept = changed(sent, amplify_node(stored, sent, by_kubelet=True))
    assert json.loads(kept.annotations[RAW]) == raw
    for name, amount in stated.items():
        half_more = multiply(name, amount, Ratio(150, 100)) if name in raw else amount
        assert kept.allocatable[name] == half_more


def test_a_kubelet_that_confirms_what_is_not_amplified_is_not_asked() -> None:
    once = recorded("8", "8", '{"cpu":1.00}', kubelet=True)
    kept = changed(
        cpu_node("8", once), amplify_node(cpu_node("8", once), cpu_node("8", once), by_kubelet=True)
    )
    assert kept.allocatable == {"cpu": "8"}


@pytest.mark.parametrize(
    ("name", "raw", "ratio", "amplified"),
    [
        ("cpu", "3", Ratio(113, 100), "3390m"),
        ("cpu", "15", Ratio(107, 100), "16050m"),
        ("cpu", "3920m", Ratio(113, 100), "4430m"),
        ("cpu", "16", Ratio(18, 10), "28800m"),
        ("memory", "65536Mi", Ratio(5, 2), "167772160Ki"),
        ("memory", "1001", Ratio(3, 2), "1502"),
    ],
)
def test_amounts_are_exact(name: str, raw: str, ratio: Ratio, amplified: str) -> None:
    assert multiply(name, raw, ratio) == amplified


@given(st.integers(1, 256), st.integers(100, 500))
def test_no_whole_cpu_is_lost_by_rounding(cpus: int, hundredths: int) -> None:
    found = parse_quantity(multiply("cpu", str(cpus), Ratio(hundredths, 100)))
    assert found.numerator * 100 == cpus * hundredths * found.denominator


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{]", "is '{]', but must be a JSON mapping of resources to ratios"),
        ("[1]", "is '[1]', but must be a JSON mapping"),
        ('{"cpu":"1.5"}', "['cpu'] is '\"1.5\"', but must be a number up to 5000"),
        ('{"cpu":NaN}', "but must be a JSON mapping"),
        ('{"cpu":1e999}', "['cpu'] is '1e999', but must be a number up to 5000"),
        ('{"cpu":5001}', "['cpu'] is '5001', but must be a number up to 5000"),
        ('{"cpu":null}', "['cpu'] is 'null', but must be a number up to 5000"),
        ('{"c\\ud800":' + "[" * 5000, "but must be a JSON mapping"),
    ],
)
def test_a_bad_ratio_is_one_sentence_and_holds(text: str, sentence: str) -> None:
    found = read_ratios(text, "n1")
    assert isinstance(found, Gap)
    assert found.reason.startswith(f"Node n1: metadata.annotations[{RATIO}]")
    assert sentence in found.reason
    bad = {**BY_KUBELET, RATIO: text}
    held = amplify_node(cpu_node("12", bad), cpu_node("10", bad), by_kubelet=True)
    assert (held.problem, held.allocatable) == (found.reason, {"cpu": "15"})
    never = amplify_node(cpu_node("8"), cpu_node("8", {RATIO: text}), by_kubelet=True)
    assert never == NodeChanges(problem=found.reason)


@pytest.mark.parametrize(
    "record", ["", "{]", '{"cpu":{"stored":"x"}}', '{"cpu":{"stored":"1","raw":"-"}}']
)
def test_a_record_that_cannot_be_read_says_nothing(record: str) -> None:
    bad = {**OF_KOORDINATOR, RECORD: record}
    found = amplify_node(cpu_node("12", bad), cpu_node("8", bad), by_kubelet=True)
    assert found.allocatable == {"cpu": "12"}


def test_an_amount_that_is_no_quantity_is_left_alone() -> None:
    found = amplify_node(cpu_node("8"), cpu_node("many", HALF_MORE), by_kubelet=True)
    assert found.allocatable == {}


def test_memory_is_amplified_beside_cpu() -> None:
    ratio = {RATIO: '{"cpu":1.50,"memory":2.50,"storage":3}'}
    sent = NodeAmounts("n1", {}, {"cpu": "16", "memory": "65536Mi", "storage": "1"}, ratio)
    found = amplify_node(NodeAmounts("n1"), sent, by_kubelet=True)
    assert found.allocatable == {"cpu": "24", "memory": "167772160Ki"}
    assert found.annotations[RAW] == '{"cpu":"16","memory":"65536Mi"}'


RATIOS = st.sampled_from((None, "1.00", "1.13", "1.50", "2.00"))
LARGEST_RATIO = 2
#: Few, so that a true amount often equals an amplified one.
CPUS = st.sampled_from((4, 6, 8, 9, 12, 16, 18, 24))


class ClusterWithOneNode(RuleBasedStateMachine):
    """A Node as the API server stores it, a kubelet that patches what differs from what it sees,
    and everybody else. `reserved` changes with a restarted kubelet, without the capacity."""

    @initialize(true=CPUS)
    def register(self, true: int) -> None:
        self.true, self.capacity = true, true
        self.node = NodeAmounts("n1", {"cpu": str(true)}, {"cpu": str(true)}, {})
        self.serving = True
        self.largest, self.forgotten = true, False

    def write(self, new: NodeAmounts, *, by_kubelet: bool = False) -> None:
        took_part = {**self.node.annotations, **new.annotations}
        if self.serving and any(name in took_part for name in (RATIO, RAW, RECORD)):
            new = changed(new, amplify_node(self.node, new, by_kubelet=by_kubelet))
        self.node = new

    def send(self, cpu: str, capacity: str | None = None, *, by_kubelet: bool = False) -> None:
        capacities = {"cpu": capacity or self.node.capacity["cpu"]}
        sent = NodeAmounts("n1", capacities, {"cpu": cpu}, self.node.annotations)
        self.write(sent, by_kubelet=by_kubelet)

    @rule()
    def sync_kubelet(self) -> None:
        self.send(str(self.true), str(self.capacity), by_kubelet=True)

    @rule()
    def patch_by_kubelet_without_amounts(self) -> None:
        self.send(self.node.allocatable["cpu"], by_kubelet=True)

    @rule(true=CPUS)
    def resize_machine(self, true: int) -> None:
        self.true = self.capacity = true
        self.largest = max(self.largest, true)

    @rule(true=CPUS)
    def reserve(self, true: int) -> None:
        self.true, self.capacity = true, max(true, self.capacity)
        self.largest = max(self.largest, true)

    @rule(ratio=RATIOS)
    def set_ratio(self, ratio: str | None) -> None:
        """By metadata alone: no webhook is called."""
        annotations = {k: v for k, v in self.node.annotations.items() if k != RATIO}
        if ratio is not None:
            annotations[RATIO] = f'{{"cpu":{ratio}}}'
        self.node = NodeAmounts("n1", self.node.capacity, self.node.allocatable, annotations)

    @rule(ratio=RATIOS)
    def set_ratio_with_status(self, ratio: str | None) -> None:
        before = self.node
        self.set_ratio(ratio)
        after, self.node = self.node, before
        self.write(after)

    @rule()
    def touch(self) -> None:
        self.send(self.node.allocatable["cpu"])

    @rule(cpu=CPUS)
    def meddle(self, cpu: int) -> None:
        self.largest = max(self.largest, cpu)
        self.send(str(cpu))

    @rule(key=st.sampled_from((RAW, RECORD)))
    def remove_annotation(self, key: str) -> None:
        left = {k: v for k, v in self.node.annotations.items() if k != key}
        self.node = NodeAmounts("n1", self.node.capacity, self.node.allocatable, left)
        self.forgotten = self.forgotten or (RAW not in left and RECORD not in left)

    @precondition(lambda self: self.serving)
    @rule()
    def stop_serving(self) -> None:
        self.serving = False

    @precondition(lambda self: not self.serving)
    @rule()
    def serve(self) -> None:
        self.serving = True

    @invariant()
    def is_never_amplified_twice(self) -> None:
        """As long as nobody removed everything that is known about it."""
        if hasattr(self, "node") and not self.forgotten:
            stored = parse_quantity(self.node.allocatable["cpu"])
            assert stored.numerator <= LARGEST_RATIO * self.largest * stored.denominator

    @invariant()
    def ends_at_the_exact_amount(self) -> None:
        """Whatever happened: once it is quiet, the manager's write and two of the kubelet's."""
        if not hasattr(self, "node"):
            return
        before = self.node, self.serving
        self.serving = True
        self.touch()
        self.sync_kubelet()
        self.sync_kubelet()
        found, (self.node, self.serving) = self.node, before
        ratio = json.loads(found.annotations.get(RATIO, '{"cpu":1}'))["cpu"]
        exact = Ratio(round(ratio * 100), 100)
        assert found.allocatable == {"cpu": multiply("cpu", str(self.true), exact)}
        assert (RAW in found.annotations) == (RATIO in found.annotations)
        again = amplify_node(found, found, by_kubelet=False)
        assert not again, "a second look changes nothing"
        told = NodeAmounts("n1", found.capacity, {"cpu": str(self.true)}, found.annotations)
        assert changed(told, amplify_node(found, told, by_kubelet=True)) == found


TestAnySequenceOfWrites = ClusterWithOneNode.TestCase
TestAnySequenceOfWrites.settings = settings(max_examples=60, stateful_step_count=20)
