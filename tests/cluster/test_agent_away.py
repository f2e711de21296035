"""The agent when the API server is killed, hangs, or is not there at the start."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.agent.objects_checkpoint import FILE
from tests.cluster.agent_process import eventually
from tests.cluster.agent_stage import Stage
from tests.kernel.bed import Bed
from tests.kernel.conftest import KERNELS, kernel_name
from tools.cluster.control_plane import ControlPlane

#: Seconds; an informer's longest pause before it tries again is 30, and a busy machine adds some.
LONGEST_SILENCE = 60.0


@pytest.fixture
def bed() -> Iterator[Bed]:
    made = Bed(KERNELS[kernel_name()][0], f"cluster-{uuid.uuid4().hex[:8]}")
    yield made
    made.close()


@pytest.fixture
def own_stage(fragile: ControlPlane, bed: Bed, tmp_path: Path) -> Iterator[Stage]:
    """With a control plane that it may kill."""
    namespace = f"away-{uuid.uuid4().hex[:8]}"
    fragile.kubectl("create", "namespace", namespace)
    made = Stage(fragile, namespace, bed, tmp_path)
    yield made
    made.close()


def test_without_the_api_server_it_goes_on_and_says_so(own_stage: Stage) -> None:
    """Killed during its watches: the quota follows usage from what was known; back again, changes
    arrive, and nothing was released or told twice in between."""
    stage = own_stage
    stage.throttle(80)
    agent = stage.start()
    stage.wait_for_share(80)
    stage.plane.kill("kube-apiserver")
    eventually(
        "that it says so",
        lambda: any(
            "nothing was heard of pods" in x for x in agent.get("/healthz").get("cluster", ())
        ),
    )
    tick = agent.get("/v1/top")["tick"]
    overview = eventually(
        "more ticks", lambda: (t := agent.get("/v1/top"))["tick"] > tick + 3 and t
    )
    assert overview["state"] == "acting"
    assert all(source["problem"] for source in overview["sources"])
    stage.wait_for_share(80)
    assert agent.get("/readyz")["ok"] is True
    assert 'slackwater_source_silent{source="pods"} 1.0' in agent.get("/metrics")
    ages = [tick_line(line) for line in agent.text("/v1/ticks").splitlines() if '"tick"' in line]
    assert ages[-1]["sources"]["pods"]["age"] > 0
    stage.plane.start("kube-apiserver")
    stage.throttle(50)
    stage.wait_for_share(50)
    eventually("that all is heard", lambda: "cluster" not in agent.get("/healthz"), LONGEST_SILENCE)
    assert "unlimited" not in agent.quotas()


def tick_line(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line).get("snapshot", {})
    return found


def test_a_start_without_the_api_server_goes_on_from_what_was_known(own_stage: Stage) -> None:
    """kill -9 of both: the next agent adopts what is there, decides by the objects that the first
    one kept, and by new ones when they come."""
    stage = own_stage
    stage.throttle(80)
    first = stage.start()
    stage.wait_for_share(80)
    eventually("the kept objects", (stage.folder / "state" / FILE).exists)
    stage.agents.pop().kill()
    stage.plane.kill("kube-apiserver")
    earlier = len(first.told("cluster"))  # both write into one file
    agent = stage.start()
    eventually(
        "that it uses what was known",
        lambda: any("before the agent's start" in x for x in agent.told("cluster")[earlier:]),
    )
    assert any("adopted: " in line["because"] for line in agent.lines())
    tick = agent.get("/v1/top")["tick"]
    eventually("some ticks", lambda: agent.get("/v1/top")["tick"] > tick + 3)
    assert agent.get("/healthz")["ok"] is True
    stage.wait_for_share(80)
    assert "unlimited" not in agent.quotas()
    stage.plane.start("kube-apiserver")
    stage.throttle(50)
    stage.wait_for_share(50)
    eventually("that it is ready", lambda: agent.get("/readyz")["ok"])


def test_a_server_that_hangs_slows_no_tick(own_stage: Stage) -> None:
    """Stopped, not dead: connections stay open and say nothing."""
    stage = own_stage
    stage.throttle(80)
    agent = stage.start()
    stage.wait_for_share(80)
    stage.plane.pause("kube-apiserver")
    try:
        tick = agent.get("/v1/top")["tick"]
        eventually("ten ticks", lambda: agent.get("/v1/top")["tick"] > tick + 10)
        stage.wait_for_share(80)
    finally:
        stage.plane.resume("kube-apiserver")
    lines = agent.get("/metrics").splitlines()
    buckets = [line for line in lines if line.startswith("slackwater_tick_duration_seconds_bucket")]
    counts = [float(line.rpartition(" ")[2]) for line in buckets]
    assert counts[-1] == counts[-2], buckets  # none took longer than a second
    stage.throttle(50)
    stage.wait_for_share(50)
