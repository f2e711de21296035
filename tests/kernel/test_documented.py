"""Every documented metric and every field of a snapshot occurs on a real node, or cannot here."""

import re
from pathlib import Path
from typing import Any

import pytest

from slackwater.agent.endpoint_server import Query, metrics
from slackwater.agent.recording_replay import replay
from slackwater.agent.shared_state import view_of
from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION
from slackwater.model.cgroup import CgroupReading
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import MilliCpu
from slackwater.policies.catalog import POLICIES
from slackwater.record.journal import TickRecord
from slackwater.record.node_events import EventContext, SentState, due_events
from slackwater.record.node_status import node_report
from slackwater.record.overview import make_overview
from slackwater.record.recording import decode_recording, encode_recording
from tests.kernel.batch_pods import BE, MAY_BURST, MI, UID_1, V1, BatchPod, batch, file_of
from tests.kernel.bed import Bed
from tests.kernel.hand import clock
from tests.kernel.in_process import NODE, RATIOS, InProcess, pod_object

pytestmark = pytest.mark.cgroupfs

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
SECTIONS = (
    "bestEffortShare",
    "elasticResources",
    "qosLevel",
    "quotaBurst",
    "memoryQos",
    "corePinning",
    "oversold",
)
#: Somebody else's writes in a row, and one to see what came of them.
FIGHT = 8

NEEDS_A_CLUSTER = {
    "slackwater_source_age_seconds",
    "slackwater_source_silent",
    "slackwater_node_writes_total",
    "slackwater_events_lost_total",
    "slackwater_topology_writes_total",
    "slackwater_topology_unreported",
}
#: A container runtime that asks before each start; a webhook that amplified the Node.
NEEDS_OTHERS = {
    "slackwater_container_start_answers_total",
    "slackwater_node_cpu_amplified_allocatable_cores",
}
#: The kernel keeps PSI by cgroup for v2 hierarchies alone.
NEEDS_V2 = {"slackwater_tier_cpu_pressure_seconds_total"}
NEEDS_PSI = NEEDS_V2 | {"slackwater_node_cpu_pressure_seconds_total"}
#: Of a snapshot: no API server here, and no knob that cannot be written.
EMPTY_HERE = {"sources", "off", "refused_cpus"}


def has_psi() -> bool:
    """The file is there also where PSI is compiled in and off: then it cannot be opened."""
    try:
        return bool(Path("/proc/pressure/cpu").read_text())
    except OSError:
        return False


def documented() -> set[str]:
    return set(re.findall(r"^\| `(slackwater_\w+)` \|", PAGE.read_text(), re.MULTILINE))


def families(text: str) -> set[str]:
    """With a sample, not only with a help text."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    names = {re.split(r"[ {]", line)[0] for line in lines}
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}


def ensurance(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    head = {"apiVersion": "ensurance.crane.io/v1alpha1", "kind": kind}
    return {**head, "metadata": {"name": name}, "spec": spec}


#: Always above: memory is in use. It stops scheduling, which nobody can carry out here.
RULES = (
    ensurance("AvoidanceAction", "stop", {"coolDownSeconds": 300}),
    ensurance(
        "NodeQOS",
        "waterline",
        {
            "nodeQualityProbe": {"nodeLocalGet": {"localCacheTTLSeconds": 60}},
            "rules": [
                {
                    "name": "memory",
                    "actionName": "stop",
                    "metricRule": {"name": "memory_total_usage", "value": 1},
                }
            ],
        },
    ),
)


def busy_node(bed: Bed, agent: InProcess) -> list[TickRecord]:
    """Every policy at work, everything read, a rule that is triggered, and somebody else at the
    tier's quota."""
    spec: dict[str, Any] = {name: {"enabled": True} for name in SECTIONS}
    spec |= {"agent": {"reading": "everything"}, "bestEffortShare": {"enabled": True}}
    head = {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings"}
    agent.put("settings", {**head, "spec": spec})
    asked = BE | MAY_BURST | {RATIOS: '{"memoryQos": {"highRatio": 50, "lowRatio": 25}}'}
    asked |= {"qos.gocrane.io/cpu-manager": "none"}
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI), batch(1000, 128 * MI, 1)], asked))
    agent.put("rules", *RULES)
    worth = {RATIO_ANNOTATION: "1.25"}
    # So many CPUs that the tier's quota stays above the pods', whatever else runs here: on v1 it
    # would take the place of theirs.
    amounts = {"allocatable": {"cpu": "64"}}
    metadata = {"name": NODE, "annotations": worth}
    agent.put("node", {"kind": "Node", "metadata": metadata, "status": amounts})
    records = agent.rounds(3)
    tier = f"{bed.kubepods}/besteffort"
    for _ in range(FIGHT):
        bed.write(tier, file_of(bed, QUOTA), "-1" if bed.version is V1 else "max 100000")
        records.append(agent.once())
    return records


def test_every_documented_metric(bed: Bed, pod: BatchPod, agent: InProcess) -> None:
    busy_node(bed, agent)
    answer = metrics(Query(agent.shared, clock()))
    absent = NEEDS_A_CLUSTER | NEEDS_OTHERS | (NEEDS_V2 if bed.version is V1 else set())
    absent |= set() if has_psi() else NEEDS_PSI
    assert documented() - families(answer.body.decode()) == absent


def test_every_field_of_a_snapshot(bed: Bed, pod: BatchPod, agent: InProcess) -> None:
    records = busy_node(bed, agent)
    filled = {name for record in records for name in filled_fields(record.snapshot)}
    empty = EMPTY_HERE | (set() if has_psi() else {"pressure"})
    assert set(NodeSnapshot.__struct_fields__) - filled == empty
    readings = [each for record in records for each in record.snapshot.readings.values()]
    known = {name for each in readings for name in filled_fields(each)}
    unread = {"pressure"} if bed.version is V1 or not has_psi() else set()
    assert set(CgroupReading.__struct_fields__) - known == unread


def filled_fields(struct: NodeSnapshot | CgroupReading) -> set[str]:
    """Those that hold something; False and zero are something."""
    values = {name: getattr(struct, name) for name in struct.__struct_fields__}
    return {
        name
        for name, value in values.items()
        if not isinstance(value, Gap) and value not in (None, (), {}, frozenset())
    }


def test_a_triggered_rule_is_told_wherever_people_look(
    bed: Bed, pod: BatchPod, agent: InProcess
) -> None:
    busy_node(bed, agent)
    view = view_of(agent.shared, clock())
    [row] = make_overview(view).rules
    assert (row.title(), row.state) == ("NodeQOS/waterline/memory", "triggered")
    assert row.did == "stops scheduling"
    assert row.seen is not None
    assert row.seen > row.limit == 1
    report = node_report(view)
    [[active]] = report.rules.values()
    assert (active.rule, active.state) == ("memory", "triggered")
    told = [line for line in agent.lines if line.what == "taint interference.crane.io"]
    assert [line.result.partition(":")[0] for line in told] == ["impossible"]
    found, _ = due_events(
        view, SentState(), EventContext("here", clock(), MilliCpu(100), lambda _: "")
    )
    reasons = {each.reason for each in found}
    assert {"AvoidanceTriggered", "CommandImpossible"} <= reasons


def test_what_was_recorded_with_rules_is_decided_again(
    bed: Bed, pod: BatchPod, agent: InProcess
) -> None:
    recording = decode_recording(encode_recording(busy_node(bed, agent)))
    done = replay(recording, POLICIES)
    assert (done.differences, done.problems) == ((), ())
