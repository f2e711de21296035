"""The reference page of `slackwater status` names every state and every field of its output."""

from pathlib import Path

import msgspec
import pytest

from slackwater.status.cluster_status import (
    ClusterStatus,
    ManagerRow,
    NodeState,
    NodeStatusRow,
    PolicyRow,
    Totals,
)
from slackwater.status.normalization_status import NormalizationStatus

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "status.md").read_text()


@pytest.mark.parametrize("state", NodeState)
def test_every_state_is_a_row(state: NodeState) -> None:
    assert f"\n| `{state.value}` | " in PAGE


@pytest.mark.parametrize(
    "kind",
    [ClusterStatus, Totals, ManagerRow, NodeStatusRow, PolicyRow, NormalizationStatus],
)
def test_every_field_is_named(kind: type[msgspec.Struct]) -> None:
    form = PAGE.partition("## `-o json`")[2]
    for field in msgspec.structs.fields(kind):
        assert field.encode_name in form, field.encode_name
