"""An agent and a cluster that say what a test states, and can be away."""

from collections.abc import Sequence

from slackwater.model.gap import Gap
from slackwater.record.cpu_map import CpuMap
from slackwater.record.explanation import Explanation
from slackwater.record.overview import Overview
from slackwater.record.recording import Recording, decode_recording, encode_recording
from slackwater.status.cluster_status import ClusterStatus
from slackwater.status.node_forecast import NodeForecastView
from slackwater.ui.sources import (
    AgentReader,
    ClusterSnapshot,
    ForecastAndHistory,
    NotAvailableError,
    RotationPlans,
    WorkloadQuery,
)
from tests.unit.record.ticks import run

AWAY = "no agent answers at /run/agent.sock: it is a test's"
NO_FORECAST = NodeForecastView("n1", "", "", False, 0, {}, (), (), "")


def short_recording() -> Recording:
    return decode_recording(encode_recording(run([Gap("no usage"), 400, 600, 800])))


class StatedAgent:
    """`asked` counts the questions."""

    name = "the agent of a test"

    def __init__(self, overview: Overview, rows: Sequence[Explanation] = ()) -> None:
        self.shown, self.rows = overview, rows
        self.map = CpuMap()
        self.recording: Recording | None = None
        self.away = ""
        self.asked: list[str] = []

    def overview(self) -> Overview:
        self._note("overview")
        return self.shown

    def explain(self, target: str) -> Sequence[Explanation]:
        self._note(f"explain {target}")
        return self.rows

    def cpus(self) -> CpuMap:
        self._note("cpus")
        return self.map

    def ticks(self) -> Recording:
        self._note("ticks")
        if self.recording is None:
            raise NotAvailableError("no tick yet")
        return self.recording

    def _note(self, question: str) -> None:
        self.asked.append(question)
        if self.away:
            raise NotAvailableError(self.away)


class StatedCluster:
    """`agents` are by node; of the others there is a sentence."""

    def __init__(self, status: ClusterStatus) -> None:
        self.snapshot = ClusterSnapshot(1, status)
        self.found = ForecastAndHistory(NO_FORECAST)
        self.plans = RotationPlans(())
        self.agents: dict[str, AgentReader] = {}
        self.planned: list[WorkloadQuery] = []
        self.problem = ""

    def look(self) -> ClusterSnapshot:
        return self.snapshot

    def forecast(self, node: str) -> ForecastAndHistory:
        assert node
        if self.problem:
            raise NotAvailableError(self.problem)
        return self.found

    def plan(self, query: WorkloadQuery) -> RotationPlans:
        self.planned.append(query)
        if self.problem:
            raise NotAvailableError(self.problem)
        return self.plans

    def agent_of(self, node: str) -> AgentReader | Gap:
        return self.agents.get(node) or Gap(f"the agent of {node} cannot be reached from here")
