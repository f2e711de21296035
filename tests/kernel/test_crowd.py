"""A crowd below the best-effort tier's quota on cgroup v1, where none may exceed one above it: a
small move writes nothing below, a large one is taken whole and told as one."""

import pytest

from slackwater.model.knob import BURST, QUOTA
from slackwater.record.journal import TickRecord
from slackwater.resolution.nesting import RAISED_EVERY
from tests.kernel.batch_pods import MAY_BURST, limit, weight
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
        batchResources={},
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


def test_small_moves_write_nothing_below_and_large_ones_are_told_as_one(
    bed: Bed, agent: InProcess
) -> None:
    tier = f"{bed.kubepods}/besteffort"
    paths = crowd(bed, agent)
    size(agent, CPUS)
    rounds(agent, 5)
    standing = {path: limit(bed, path) for path in paths}
    assert None not in standing.values()
    for cpus in (990, 1010, 960, 1040):
        size(agent, cpus)
        moved = rounds(agent, 2)
        assert [below(record, tier) for record in moved] == [[], []]
        assert any(o.change.ref.path == tier for record in moved for o in record.outcomes)
    assert {path: limit(bed, path) for path in paths} == standing
    size(agent, CPUS // 2)
    cut = rounds(agent, 1)[0]
    assert len(set(below(cut, tier))) == 2 * PODS
    told = [entry.what for entry in cut.entries if entry.what.startswith("quota of")]
    assert sorted(told) == [f"quota of {2 * PODS} groups below {tier}", f"quota of {tier}"]
    quota = limit(bed, tier)
    assert quota is not None
    for path in paths:
        own = limit(bed, path)
        assert own is not None
        assert 0.74 * quota <= own <= quota
    size(agent, 8 * CPUS)
    rounds(agent, RAISED_EVERY + 2)
    assert {limit(bed, path) for path in paths} == {500_000 * CPUS}
    agent.settings()
    agent.settle()
    assert {limit(bed, path) for path in (tier, *paths)} == {None}


def test_a_batch_sidecar_does_not_make_a_service_lighter(bed: Bed, agent: InProcess) -> None:
    """It did: from 2048 to 102 shares."""
    number = PODS + 1
    pod, ids = pod_path(bed, number), [CONTAINER.format(n) for n in (1, 2)]
    for each in ids:
        bed.make(f"{pod}/{each}")
    bed.write(pod, "cpu.shares", "2048")
    web, side = Box(ids[0], {"cpu": "2"}), Box(ids[1], {BATCH_CPU: "100"}, {BATCH_CPU: "100"})
    agent.put("pod", pod_object(UID.format(number), [web, side]))
    agent.settings(batchResources={})
    agent.settle()
    assert weight(bed, pod) == 2150
    assert weight(bed, f"{pod}/{ids[1]}") == 102
