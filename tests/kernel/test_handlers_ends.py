"""Pods that restart, vanish or say nonsense; and the agent as a user starts it."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.model.plan import Result
from tests.kernel.batch_pods import (
    BE,
    MAY_BURST,
    MI,
    UID_1,
    BatchPod,
    batch,
    burst,
    is_idle,
    limit,
    set_limits,
)
from tests.kernel.bed import Bed
from tests.kernel.in_process import BATCH_CPU, BURST, BURST_TIME, LEVEL, Box, InProcess, pod_object
from tests.kernel.pods import CONTAINER, UID, pod_path, remove_pod
from tests.kernel.running import Running

pytestmark = pytest.mark.cgroupfs


def test_a_container_that_starts_again(bed: Bed, pod: BatchPod, agent: InProcess) -> None:
    """A new cgroup with the kernel's defaults in it, burst 0 among them."""
    agent.settings(elasticResources={}, quotaBurst={})
    set_limits(agent, 500, 1000)
    agent.settle()
    bed.remove(pod.inner[1])
    fresh = pod.add(7)
    boxes = [batch(500, 64 * MI), batch(1000, 64 * MI, 7)]
    agent.put("pod", pod_object(UID_1, boxes, MAY_BURST))
    agent.settle()
    assert (limit(bed, fresh), burst(bed, fresh)) == (100_000, 100_000)
    assert {entry.ref.path for entry in agent.ledger.entries} == {pod.path, pod.inner[0], fresh}


def test_a_container_of_the_same_name_that_starts_again(
    bed: Bed, pod: BatchPod, agent: InProcess
) -> None:
    agent.settings(elasticResources={}, quotaBurst={})
    set_limits(agent, 500, 1000)
    agent.settle()
    bed.remove(pod.inner[1])
    bed.make(pod.inner[1])
    agent.settle()
    assert (limit(bed, pod.inner[1]), burst(bed, pod.inner[1])) == (100_000, 100_000)


def test_a_pod_that_goes_between_the_look_and_the_write(
    bed: Bed, pod: BatchPod, agent: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.settings(elasticResources={}, quotaBurst={}, qosLevel={})
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)], BE | MAY_BURST))
    look = agent.snapshot_reader.close_snapshot

    def look_and_lose(*arguments: Any) -> Any:
        found = look(*arguments)
        if os.path.exists(bed.directory(pod.path)):
            remove_pod(bed, pod.path)
        return found

    monkeypatch.setattr(agent.snapshot_reader, "close_snapshot", look_and_lose)
    first = agent.once()
    assert {outcome.result for outcome in first.outcomes} == {Result.VANISHED}
    agent.settle()
    assert agent.ledger.entries == ()


def test_a_pod_that_goes_while_it_is_ours(bed: Bed, pod: BatchPod, agent: InProcess) -> None:
    agent.settings(elasticResources={}, quotaBurst={}, qosLevel={})
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)], BE | MAY_BURST))
    agent.settle()
    remove_pod(bed, pod.path)
    agent.settle()
    assert agent.ledger.entries == ()


def test_bad_words_are_told_once_and_the_others_go_on(
    bed: Bed, pod: BatchPod, agent: InProcess
) -> None:
    other = pod_path(bed, 2, "/besteffort")
    bed.make(f"{other}/{CONTAINER.format(200)}")
    agent.settings(elasticResources={}, quotaBurst={}, qosLevel={})
    bad = Box(CONTAINER.format(100), {}, {BATCH_CPU: "200m"})
    said = {LEVEL: "GOLD", BURST: "perhaps"}
    good = Box(CONTAINER.format(200), {}, {BATCH_CPU: "500"})
    agent.put(
        "pods",
        pod_object(UID_1, [bad], said),
        pod_object(UID.format(2), [good], BE | {BURST: "1", BURST_TIME: "-5"}, name="good"),
    )
    agent.settle()
    agent.rounds(2)
    assert (limit(bed, other), burst(bed, other), is_idle(bed, other)) == (50_000, 50_000, True)
    told = {line.what: line.because for line in agent.lines if line.what.startswith("default/")}
    assert told.keys() == {
        "default/job: elastic_resources",
        "default/job: qos_level",
        "default/job: quota_burst",
        "default/good: quota_burst",
    }
    assert len([line for line in agent.lines if line.what in told]) == len(told)
    assert "'200m'" in told["default/job: elastic_resources"]
    assert "'GOLD'" in told["default/job: qos_level"]
    assert "'perhaps'" in told["default/job: quota_burst"]
    assert "'-5'" in told["default/good: quota_burst"]


VOLCANO = """
cpuQosConfig: {enable: true}
cpuBurstConfig: {enable: true}
---
kind: Node
metadata: {name: here, labels: {volcano.sh/colocation: "true"}}
status: {allocatable: {cpu: "2"}}
"""


def wait_until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not met():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def test_the_real_agent_by_volcanos_configuration(
    bed: Bed, pod: BatchPod, tmp_path: Path, start: Callable[..., Running]
) -> None:
    before = pod.picture()
    node = tmp_path / "node"
    node.mkdir()
    (node / "settings.yaml").write_text(VOLCANO)
    document = pod_object(UID_1, [batch(500, 64 * MI)], BE | MAY_BURST)
    (node / "pod.json").write_text(json.dumps(document))
    running = start("--on-exit", "release", "--supported-features", "*,-CPUBurst")
    wait_until(lambda: is_idle(bed, pod.path) and limit(bed, pod.path) == 50_000)
    (node / "settings.yaml").write_text(VOLCANO.replace("cpuQosConfig: {enable: true}", ""))
    wait_until(lambda: not is_idle(bed, pod.path))
    lines = running.end(signal.SIGTERM)
    assert running.process.returncode == 0
    assert pod.picture() == before
    assert not any("refused" in line.get("result", "") for line in lines)
    assert not any("somebody else" in line.get("because", "") for line in lines)
    assert not any(line["what"].startswith("burst of ") for line in lines)
