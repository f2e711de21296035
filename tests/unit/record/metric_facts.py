"""Facts for metrics: a tick in which everything was read."""

from typing import Any

import msgspec

from slackwater.model.cgroup import CgroupRef, CpuPressure, PressureLine, Tier
from slackwater.model.cpus import Cpu, CpuSet, KubeletCpus, Topology
from slackwater.model.decision import (
    Because,
    Contribution,
    Grant,
    NoteKind,
    OfferReport,
    PolicyAction,
    PolicyReport,
    RuleState,
    Verb,
    Yielded,
)
from slackwater.model.gap import Gap
from slackwater.model.node_resource import NodeResources
from slackwater.model.plan import Result
from slackwater.model.snapshot import Freshness, Rate
from slackwater.model.units import Micros, MilliCpu, Ratio
from slackwater.policies import normalization
from slackwater.record.agent_view import ClusterLink
from slackwater.record.interception import InterceptionCounts
from slackwater.record.journal import TickRecord
from slackwater.record.metrics import MetricInputs, TickCounters
from slackwater.settings.agent_settings import AgentSettings, Reading
from tests.unit.policies.nodes import BESTEFFORT, FREE, KUBEPODS, held, node, pod, reading
from tests.unit.record.rule_reports import command_outcome, line, progress, rule
from tests.unit.record.tick_records import OURS, SHARE, note, outcome, record, told

STALLED = CpuPressure(
    PressureLine(0, 0, 0, Micros(2_500_000)), PressureLine(0, 0, 0, Micros(500_000))
)
EVERYTHING = AgentSettings(reading=Reading.EVERYTHING)
#: A cluster that is heard but for its pods.
LINK = ClusterLink(
    sources={
        "pods": Freshness(Micros(90_000_000), "no answer"),
        "node": Freshness(Micros(2_500_000)),
    },
    writes={"written": 3, "refused": 1},
    lost=2,
    topology={"written": 2},
    unreported="it is Koordinator's",
)


#: Answers of 0.4, 4 and 60 ms.
STARTS = InterceptionCounts(
    {("create", "adjusted"): 2, ("update", "failed"): 1},
    (1, 0, 0, 1, 0, 1),
    Micros(64_400),
    connections=2,
)


def facts(
    latest: TickRecord | None = None, tally: TickCounters | None = None, **said: Any
) -> MetricInputs:
    counted = tally or TickCounters()
    if latest is not None and tally is None:
        counted.add(latest)
    return MetricInputs(
        at=said.pop("at", Micros(5_000_000)),
        counts=counted.counts(),
        policies=(SHARE,),
        latest=latest,
        **{"starts": STARTS, **said},
    )


SELLING = PolicyReport(
    "oversold",
    PolicyAction.ACTED,
    "nothing to do",
    {},
    offers=(
        OfferReport(
            "gocrane.io/cpu", "m", 1000, 3, 2, allocatable=8_000, reserve=200, used=2_500,
            elastic_used=500, predicted=1_800, forecast="own history of 2 h", budget=4_400,
            claim=3_900, shown=3, exceeded=7,
        ),
        OfferReport("gocrane.io/memory", "B", 1, 1024, 0, used=4096, missing="no prediction yet"),
    ),
)  # fmt: skip


NORMALIZING = PolicyReport(
    normalization.NAME, PolicyAction.ACTED, "", {normalization.RATIO_NUMBER: 120}
)


def scaled(ref: CgroupRef | Gap) -> Grant:
    """A quota of 1 CPU, divided by 1.20."""
    assert isinstance(ref, CgroupRef)
    ratio = Ratio(100, 120)
    step = Contribution(
        normalization.NAME, Verb.SCALE, ratio, MilliCpu(834), Because("ratio", "1.20", "")
    )
    return Grant(ref, "quota", MilliCpu(834), (step,), exact=Ratio(100_000, 120))


def full() -> TickRecord:
    """A tick in which everything was read."""
    pods = (pod(1, Tier.BURSTABLE), pod(2, Tier.BESTEFFORT))
    snapshot = node(
        allocatable=2000,
        usage=1250,
        best_effort=250,
        quota=OURS,
        workloads=pods,
        usages={KUBEPODS.id: 900, 101: 300, 102: 250},
        kept=(held(BESTEFFORT, FREE, OURS),),
    )
    tier = msgspec.structs.replace(reading(BESTEFFORT, OURS), pressure=STALLED)
    rates = snapshot.rates | {BESTEFFORT.id: Rate(MilliCpu(250), 1500)}
    seen = msgspec.structs.replace(
        snapshot,
        pressure=STALLED,
        readings={BESTEFFORT.id: tier},
        rates=rates,
        in_flight=(progress(),),
        topology=Topology(tuple(Cpu(number, number, 0, 0) for number in range(4))),
        reserved_cpus=CpuSet.of([0]),
        kubelet_cpus=KubeletCpus("none"),
        node_resources=NodeResources(amplified_cpu=MilliCpu(2400)),
    )
    made = record(
        seen,
        lines=(told(claim=600), line(rule(RuleState.TRIGGERED)), SELLING, NORMALIZING),
        outcomes=(outcome(), outcome(Result.REFUSED)),
        notes=(note(NoteKind.REPAIR), note(NoteKind.YIELD)),
        yielded=(Yielded(BESTEFFORT, "quota", Micros(0)),),
        took=2_000,
        agent=EVERYTHING,
    )
    story = msgspec.structs.replace(made.story, grants=(scaled(pods[0].ref),))
    return msgspec.structs.replace(made, commands=(command_outcome(),), story=story)
