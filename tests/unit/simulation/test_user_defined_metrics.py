"""The worked example of an EnsuranceMetric in a simulated agent: its own order decides."""

import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.unit.simulation.mortal import MEMORY
from tests.unit.simulation.test_qos_ensurance import Trial

EXAMPLE = Path(__file__).parents[3] / "examples/ensurance-metric/queue-depth.yaml"


def worker(name: str, demand: str) -> dict[str, Any]:
    return {"name": name, "tier": "besteffort", "demand": demand}


def queue(pod: str, length: str) -> dict[str, Any]:
    return {"name": "queue_length", "pod": pod, "series": length}


def test_the_pod_that_the_own_sort_puts_first_is_throttled_and_restored() -> None:
    """The longest queue is 120, so 22 have to go: half of that pod's 120 is more than enough."""
    metrics = [
        queue("short", "30"),
        {**queue("long", "120"), "until": "4s"},
        {**queue("long", "20"), "from": "4s"},
        queue("middle", "60"),
    ]
    pods = [worker("short", "1800m"), worker("long", "500m"), worker("middle", "900m")]
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        found = Trial(
            folder,
            pods=pods,
            metrics=metrics,
            objects=list(yaml.safe_load_all(EXAMPLE.read_text())),
            duration="130s",
        )
    quotas = [row for row in found.rows if row.what.startswith("quota of")]
    first = [row.what for row in quotas if row.at == quotas[0].at]
    assert first == ["quota of kubepods/besteffort/podlong/main"]
    assert "queue_length" in quotas[0].because
    rules = [rule for told in found.ticks[-1].story.told for rule in told.rules]
    assert [rule.metric for rule in rules] == ["EnsuranceMetric/queue-depth:queue_length"]
    assert [row.after for row in quotas][-1] == "unlimited"
