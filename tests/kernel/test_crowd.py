"""Many groups below the best-effort tier's quota on cgroup v1, where none may exceed one above it:
those that do not fit are not set, and a move writes only what it passes."""

import pytest

from slackwater.model.knob import BURST, QUOTA
from slackwater.record.journal import TickRecord
from slackwater.resolution import nesting
from slackwater.resolution.nesting import RAISED_EVERY
from tests.kernel.batch_pods import MAY_BURST, burst, limit, weight
from tests.kernel.bed import Bed
from tests.kernel.in_process import (
    BATCH_CPU,
    Box,
    InProcess,
    outcome_text,
    pod_object,
)
from tests.kernel.pods import CONTAINER, UID, pod_path

pytestmark = [pytest.mark.v1, pytest.mark.cgroupfs]

PODS = 10
#: So large that this machine's own work, some CPUs, is less than a percent of it.
CPUS = 1000


def crowd(bed: Bed, agent: InProcess) -> list[str]:
    """Pods that may use more than the whole node each."""
    paths, objects = [], []
    for number in range(1, PODS + 1):
        pod, inner = pod_path(bed, number, "/besteffort"), CONTAINER.format(number)
        paths += [pod, bed.make(f"{pod}/{inner}")]
        box = Box(inner, {}, {BATCH_CPU: str(5000 * CPUS)})
        objects.append(pod_object(UID.format(number), [box], MAY_BURST, f"job-{number}"))
    agent.put("pods", *objects)
    agent.settings(
        bestEffortShare={"threshold": 100, "jitter": 0, "recover": 1000},
        elasticResources={},
        quotaBurst={},
    )
    return paths


def size(agent: InProcess, cpus: int) -> None:
    node = {"kind": "Node", "metadata": {"name": "here"}}
    agent.put("node", {**node, "status": {"allocatable": {"cpu": str(cpus)}}})


def below(record: TickRecord, tier: str) -> list[str]:
    """Changes of quotas and bursts of the crowd."""
    changes = [outcome.change for outcome in record.outcomes]
    knobs = (QUOTA, BURST)
    return [c.ref.path for c in changes if c.knob in knobs and c.ref.path != tier]


def rounds(agent: InProcess, number: int) -> list[TickRecord]:
    records = agent.rounds(number)
    refused = [o for r in records for o in r.outcomes if o.result.value == "refused"]
    assert [outcome_text(outcome) for outcome in refused] == []
    return records


def test_a_quota_that_moves_writes_only_what_it_passes_and_tells_many_as_one(
    bed: Bed, agent: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nesting, "AT_ONCE", PODS)
    tier = f"{bed.kubepods}/besteffort"
    paths = crowd(bed, agent)
    size(agent, CPUS)
    rounds(agent, 5)
    assert {limit(bed, path) for path in paths} == {None}
    for cpus in (990, 1010, CPUS // 2, 4 * CPUS):
        size(agent, cpus)
        moved = rounds(agent, 2)
        assert [below(record, tier) for record in moved] == [[], []]
        assert any(o.change.ref.path == tier for record in moved for o in record.outcomes)
    size(agent, 8 * CPUS)
    # The tier's own ramp takes some ticks before it meets the crowd.
    raised = rounds(agent, 2 * RAISED_EVERY + 1)
    wrote = [record for record in raised if below(record, tier)]
    assert len(set(below(wrote[0], tier))) == 2 * PODS
    told = [entry.what for entry in wrote[0].entries if entry.what.startswith("quota of")]
    assert sorted(told) == [f"quota of {2 * PODS} groups below {tier}", f"quota of {tier}"]
    assert {limit(bed, path) for path in paths} == {500_000 * CPUS}
    rounds(agent, 2)
    assert {burst(bed, path) for path in paths} == {500_000 * CPUS}
    size(agent, CPUS)
    cut = rounds(agent, 3)
    assert len(set(below(cut[0], tier))) == 2 * PODS
    assert [below(record, tier) for record in cut[1:]] == [[], []]
    assert {limit(bed, path) for path in paths} == {None}
    assert {burst(bed, path) for path in paths} == {500_000 * CPUS}
    agent.settings()
    agent.settle()
    assert {limit(bed, path) for path in (tier, *paths)} == {None}
    assert {burst(bed, path) for path in paths} == {0}


def test_a_batch_sidecar_does_not_make_a_service_lighter(bed: Bed, agent: InProcess) -> None:
    """It did: from 2048 to 102 shares."""
    number = PODS + 1
    pod, ids = pod_path(bed, number), [CONTAINER.format(n) for n in (1, 2)]
    for each in ids:
        bed.make(f"{pod}/{each}")
    bed.write(pod, "cpu.shares", "2048")
    web, side = Box(ids[0], {"cpu": "2"}), Box(ids[1], {BATCH_CPU: "100"}, {BATCH_CPU: "100"})
    agent.put("pod", pod_object(UID.format(number), [web, side]))
    agent.settings(elasticResources={})
    agent.settle()
    assert weight(bed, pod) == 2150
    assert weight(bed, f"{pod}/{ids[1]}") == 102
