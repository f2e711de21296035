"""The pages about the manager and the status say what the code says."""

from pathlib import Path

import msgspec
import pytest

from slackwater.cluster.cluster_status import (
    ClusterStatus,
    ManagerRow,
    PolicyRow,
    Totals,
)
from slackwater.cluster.metrics import METRICS
from slackwater.cluster.node_row import NodeRow, NodeState

PAGES = Path(__file__).parents[3] / "docs" / "reference"
MANAGER = (PAGES / "manager.md").read_text()
STATUS = (PAGES / "status.md").read_text()


@pytest.mark.parametrize("metric", METRICS, ids=lambda each: each.name)
def test_every_metric_is_a_row(metric: msgspec.Struct) -> None:
    name, kind, labels, prose = msgspec.structs.astuple(metric)
    told = ", ".join(f"`{word}`" for word in labels)
    assert f"| `{name}` | {kind.value} | {told} | {prose} |\n" in MANAGER


@pytest.mark.parametrize("state", NodeState)
def test_every_state_is_a_row(state: NodeState) -> None:
    assert f"\n| `{state.value}` | " in STATUS


@pytest.mark.parametrize("kind", [ClusterStatus, Totals, ManagerRow, NodeRow, PolicyRow])
def test_every_field_is_named(kind: type[msgspec.Struct]) -> None:
    form = STATUS.partition("## `-o json`")[2]
    for field in msgspec.structs.fields(kind):
        assert field.encode_name in form, field.encode_name
