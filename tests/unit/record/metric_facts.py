"""Facts for metrics: a tick in which everything was read."""

from typing import Any

import msgspec

from slackwater.model.cgroup import CpuPressure, PressureLine, Tier
from slackwater.model.decision import NoteKind, RuleState, Yielded
from slackwater.model.plan import Result
from slackwater.model.snapshot import Freshness, Rate
from slackwater.model.units import Micros, MilliCpu
from slackwater.record.agent_view import ClusterLink
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
        **said,
    )


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
    )
    made = record(
        seen,
        lines=(told(claim=600), line(rule(RuleState.TRIGGERED))),
        outcomes=(outcome(), outcome(Result.REFUSED)),
        notes=(note(NoteKind.REPAIR), note(NoteKind.YIELD)),
        yielded=(Yielded(BESTEFFORT, "quota", Micros(0)),),
        took=2_000,
        agent=EVERYTHING,
    )
    return msgspec.structs.replace(made, commands=(command_outcome(),))
