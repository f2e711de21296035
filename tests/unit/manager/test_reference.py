"""The manager's reference page lists every metric as the code defines it."""

from pathlib import Path

import msgspec
import pytest

from slackwater.manager.state import METRICS

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "manager.md").read_text()


@pytest.mark.parametrize("metric", METRICS, ids=lambda each: each.name)
def test_every_metric_is_a_row(metric: msgspec.Struct) -> None:
    name, kind, labels, prose = msgspec.structs.astuple(metric)
    spelled_labels = ", ".join(f"`{word}`" for word in labels)
    assert f"| `{name}` | {kind.value} | {spelled_labels} | {prose} |\n" in PAGE
