"""An agent without a cluster evicts a pod: told, or with --evict-by-signal carried out."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.bed import Bed
from tests.kernel.hand import until
from tests.kernel.pods import UID, make_pod
from tests.kernel.running import PATIENCE, SETTINGS, Running

#: Whole processes are slow in an emulated machine, and none of this depends on systemd.
pytestmark = pytest.mark.cgroupfs

#: Always above: the machine does something.
RULES = """
apiVersion: ensurance.crane.io/v1alpha1
kind: AvoidanceAction
metadata: {name: eviction}
spec: {coolDownSeconds: 300, eviction: {terminationGracePeriodSeconds: 5}}
---
apiVersion: ensurance.crane.io/v1alpha1
kind: NodeQOSEnsurancePolicy
metadata: {name: waterline3}
spec:
  nodeQualityProbe: {nodeLocalGet: {localCacheTTLSeconds: 60}}
  objectiveEnsurances:
    - name: cpu-usage
      avoidanceThreshold: 2
      restoreThreshold: 2
      actionName: eviction
      strategy: None
      metricRule: {name: cpu_total_usage, value: 1}
---
apiVersion: ensurance.crane.io/v1alpha1
kind: PodQOS
metadata: {name: batch}
spec:
  allowedActions: [eviction]
  labelSelector: {matchLabels: {app: batch}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: job, namespace: batch, uid: %s, labels: {app: %s}}
spec: {containers: [{name: main, resources: {requests: {cpu: 100m}}}]}
status: {phase: Running, qosClass: Burstable}
"""


def prepare(bed: Bed, folder: Path) -> tuple[int, int]:
    """A batch pod and another one, a process in each."""
    node = folder / "node"
    node.mkdir()
    (node / "settings.yaml").write_text(SETTINGS)
    (node / "rules.yaml").write_text(RULES)
    for number, app in ((1, "batch"), (2, "service")):
        (node / f"pod-{number}.yaml").write_text(POD % (UID.format(number), app))
    [batch] = bed.burn(make_pod(bed, 1, containers=1)[0])
    [service] = bed.burn(make_pod(bed, 2, containers=1)[0])
    bed.make(f"{bed.kubepods}/besteffort")
    return batch, service


def has_ended(pid: int) -> bool:
    """Without reaping it, which the bed does."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def test_the_pod_that_a_rule_chooses_is_ended_by_sigterm(
    bed: Bed, tmp_path: Path, start: Callable[..., Running]
) -> None:
    batch, service = prepare(bed, tmp_path)
    running = start("--evict-by-signal")
    until(lambda: has_ended(batch), PATIENCE, lambda: "the end of the batch pod")
    ended = os.waitid(os.P_PID, batch, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    assert ended.si_status == signal.SIGTERM
    assert not has_ended(service)
    running.await_listening()
    running.await_ticks(2)  # what became of a command is logged with the next one
    lines = running.end(signal.SIGTERM)
    assert [line for line in lines if line["what"] == "evict batch/job"]


def test_without_the_flag_it_is_told_and_nothing_more(
    bed: Bed, tmp_path: Path, start: Callable[..., Running]
) -> None:
    batch, _ = prepare(bed, tmp_path)
    running = start()
    running.await_listening()
    running.await_ticks(10)
    lines = running.end(signal.SIGTERM)
    told = [line for line in lines if line["what"] == "evict batch/job"]
    assert told
    assert "there is no API server; told only" in str(told)
    assert not has_ended(batch)
