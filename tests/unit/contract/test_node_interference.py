"""Taint and condition of a Node, and which of them are ours."""

from typing import Any

import pytest

from slackwater.contract.node_interference import (
    NO_INTERFERENCE,
    NodeInterference,
    SeenInterference,
    annotation_text,
    read_interference,
)

OURS = {"key": "interference.crane.io", "effect": "PreferNoSchedule"}
TOLD = {"type": "interference-identified", "status": "True", "lastHeartbeatTime": "now"}
BOTH = NodeInterference("PreferNoSchedule", "True")


def node(owned: str | None = None, taints: Any = None, conditions: Any = None) -> dict[str, Any]:
    annotations = {} if owned is None else {"slackwater.io/interference": owned}
    return {
        "metadata": {"name": "a", "annotations": annotations},
        "spec": {"taints": taints},
        "status": {"conditions": conditions},
    }


SEEN: dict[str, tuple[object, SeenInterference]] = {
    "nothing": (node(), SeenInterference()),
    "no spec, no status": ({"metadata": {"name": "a"}}, SeenInterference()),
    "others' taints and conditions": (
        node(None, [{"key": "a", "effect": "NoSchedule"}], [{"type": "Ready", "status": "True"}]),
        SeenInterference(),
    ),
    "both, of another program": (node(None, [OURS], [TOLD]), SeenInterference(BOTH)),
    "both, ours": (
        node("taint,condition", [{"key": "a"}, OURS], [TOLD]),
        SeenInterference(BOTH, owns_taint=True, owns_condition=True),
    ),
    "only the taint is ours": (
        node("taint", [OURS], [TOLD]),
        SeenInterference(BOTH, owns_taint=True),
    ),
    "two effects at once": (
        node("taint", [OURS, OURS | {"effect": "NoSchedule"}]),
        SeenInterference(NodeInterference("NoSchedule,PreferNoSchedule"), owns_taint=True),
    ),
    "not a Node at all": ([], SeenInterference()),
    "taints that are no list": (node("taint", "all"), SeenInterference()),
}


@pytest.mark.parametrize("what", SEEN)
def test_what_a_node_shows(what: str) -> None:
    document, seen = SEEN[what]
    assert read_interference(document) == seen


def test_a_heartbeat_changes_nothing() -> None:
    later = TOLD | {"lastHeartbeatTime": "later"}
    assert read_interference(node(None, [], [TOLD])) == read_interference(node(None, [], [later]))


DIFFERENCES = [
    (SeenInterference(), NO_INTERFERENCE, False),
    (SeenInterference(), BOTH, True),
    (SeenInterference(BOTH), NO_INTERFERENCE, False),
    (SeenInterference(BOTH), BOTH, True),
    (SeenInterference(BOTH, owns_taint=True, owns_condition=True), BOTH, False),
    (SeenInterference(BOTH, owns_taint=True, owns_condition=True), NO_INTERFERENCE, True),
    (SeenInterference(BOTH, owns_taint=True), NO_INTERFERENCE, True),
    (SeenInterference(BOTH, owns_condition=True), NO_INTERFERENCE, True),
    (
        SeenInterference(BOTH, owns_taint=True, owns_condition=True),
        NodeInterference("NoSchedule", "True"),
        True,
    ),
    (
        SeenInterference(BOTH, owns_taint=True, owns_condition=True),
        NodeInterference("PreferNoSchedule", "False"),
        True,
    ),
]


@pytest.mark.parametrize(("seen", "wanted", "differs"), DIFFERENCES)
def test_what_has_to_be_written(
    seen: SeenInterference, wanted: NodeInterference, differs: bool
) -> None:
    assert seen.differs(wanted) is differs


@pytest.mark.parametrize(
    ("taint", "condition", "text"),
    [(True, True, "taint,condition"), (True, False, "taint"), (False, True, "condition"),
     (False, False, None)],
)  # fmt: skip
def test_the_note_of_what_is_ours(taint: bool, condition: bool, text: str | None) -> None:
    assert annotation_text(taint=taint, condition=condition) == text
