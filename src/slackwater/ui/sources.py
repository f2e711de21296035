"""Where the page's facts come from: an agent, or a cluster, each as a small protocol.

The page knows no socket, no kubeconfig and no API server: `slackwater ui` passes in what reads
them. Whatever cannot be had is a NotAvailableError with one sentence for the page.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.plan_view import PlanView
from slackwater.record.cpu_map import CpuMap
from slackwater.record.explanation import Explanation
from slackwater.record.overview import Overview
from slackwater.record.recording import Recording
from slackwater.status.cluster_status import ClusterStatus
from slackwater.status.node_forecast import NodeForecastView


class NotAvailableError(Exception):
    """What was asked for cannot be had now; str() is one sentence for a person."""


class AgentReader(Protocol):
    """One running agent. Every method raises NotAvailableError."""

    @property
    def name(self) -> str:
        """Of the agent, for people: its socket, or its node."""

    def overview(self) -> Overview: ...

    def explain(self, target: str) -> Sequence[Explanation]: ...

    def cpus(self) -> CpuMap: ...

    def ticks(self) -> Recording: ...


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """The cluster at one time. `version` is another number when anything in it may be another.
    `lost` is why it is not kept current now, empty while it is."""

    version: int
    status: ClusterStatus
    lost: str = ""


class ForecastAndHistory(msgspec.Struct, frozen=True):
    """What is predicted of a node; `history` is by resource: (seconds since 1970, value)."""

    view: NodeForecastView
    history: dict[str, tuple[tuple[float, float], ...]] = {}
    problems: tuple[str, ...] = ()


class RotationPlans(msgspec.Struct, frozen=True):
    """What a rotation of each workload would do now; `remarks` are about the sources."""

    plans: tuple[PlanView, ...]
    remarks: tuple[str, ...] = ()


class WorkloadQuery(msgspec.Struct, frozen=True):
    """Which workloads to plan for: a name or kind/name; without one those of the settings file."""

    name: str = ""
    namespace: str = ""

    def is_empty(self) -> bool:
        return not self.name


class ClusterSource(Protocol):
    """One cluster. Every method raises NotAvailableError."""

    def look(self) -> ClusterSnapshot: ...

    def forecast(self, node: str) -> ForecastAndHistory: ...

    def plan(self, query: WorkloadQuery) -> RotationPlans: ...

    def agent_of(self, node: str) -> AgentReader | Gap:
        """The node's agent; a Gap with one sentence where it cannot be reached."""


class PageSources(msgspec.Struct, frozen=True):
    """What the page is about: a cluster, an agent, or both; and a recording for the what-if.
    `rotation_file` is whether a settings file lists workloads."""

    cluster: ClusterSource | None = None
    agent: AgentReader | None = None
    recording: Recording | None = None
    recording_name: str = ""
    rotation_file: bool = False
