"""The report as values: what -o json shows, and what the other forms are written from.

CPU is in cores, times are seconds since 1970. What is not known is None, and `notes` say why.
"""

import msgspec


class ReportPeriod(msgspec.Struct, frozen=True, rename="camel"):
    """`step` is the time between two samples of a node."""

    start: float
    end: float
    step: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class NodeDay(msgspec.Struct, frozen=True, rename="camel"):
    """One node on one day (UTC, or the part of it within the period). `idle` is allocatable less
    the mean, `peak` the largest sample."""

    day: str
    used: float
    peak: float
    idle: float


class NodeUse(msgspec.Struct, frozen=True, rename="camel"):
    """`allocatable` is what the node offers to pods, or its CPUs where that is not known."""

    node: str
    allocatable: float
    used: float
    peak: float
    days: tuple[NodeDay, ...]

    @property
    def idle(self) -> float:
        return max(self.allocatable - self.used, 0.0)


class EstimatorOffer(msgspec.Struct, frozen=True, rename="camel"):
    """What an estimator would have sold: `sold` cores on average, over all nodes that were tried;
    `exceeded` is the share of the hours in which a node used more than it had forecast,
    `worst_node` the largest such share of a node, `time_above` the share of the time."""

    estimator: str
    windows: int
    sold: float
    exceeded: float
    worst_node: float
    time_above: float


class IdleOffer(msgspec.Struct, frozen=True, rename="camel"):
    """The backtest over `nodes` of the `of` nodes. `oracle` is what somebody who knew each hour's
    peak could have sold, `idle` what was idle on average in the same time, both in cores."""

    nodes: int
    of: int
    days: float
    idle: float
    oracle: float
    allocatable: float
    estimators: tuple[EstimatorOffer, ...]

    @property
    def ours(self) -> EstimatorOffer:
        """By our default, which comes first."""
        return self.estimators[0]


class WorkloadUse(msgspec.Struct, frozen=True, rename="camel"):
    """All pods of one owner. `used` is the mean over the samples, `peak` the largest of them;
    `requested` of the pods that are there now, None where none asks for CPU."""

    namespace: str
    workload: str
    pods: int
    used: float
    peak: float
    requested: float | None

    @property
    def of_request(self) -> float | None:
        return self.used / self.requested if self.requested else None

    @property
    def unused(self) -> float:
        """What is reserved and was not needed in any sample."""
        return max((self.requested or 0.0) - self.peak, 0.0)


class PolicyDeeds(msgspec.Struct, frozen=True, rename="camel"):
    """`nodes`: where it is on now. `acted` and `held`: shares of the ticks of those that told."""

    policy: str
    nodes: int
    acted: float | None
    held: float | None


class SlackwaterDeeds(msgspec.Struct, frozen=True, rename="camel"):
    """What Slackwater did, by its own metrics: means over the period in cores, counts in all."""

    nodes: int
    policies: tuple[PolicyDeeds, ...]
    best_effort: float | None
    sold: float | None
    forecast_exceeded: float | None
    changes: float
    evictions: float
    rotations: float


class PossibleSavings(msgspec.Struct, frozen=True, rename="camel"):
    """What selling by our default would save: that much CPU need not be bought for batch work.
    `nodes`: of the cluster's mean size. `money` is for 30 days, None without a price."""

    cores: float
    core_hours_a_day: float
    nodes: float
    money: float | None


class ClusterReport(msgspec.Struct, frozen=True, rename="camel"):
    """The stable form. `workloads` are all of them, the one with most CPU first."""

    api_version: str
    kind: str
    server: str
    prometheus: str
    made: float
    period: ReportPeriod
    nodes: tuple[NodeUse, ...]
    offer: IdleOffer | None
    workloads: tuple[WorkloadUse, ...]
    slackwater: SlackwaterDeeds | None
    savings: PossibleSavings | None
    notes: tuple[str, ...]

    @property
    def allocatable(self) -> float:
        return sum(each.allocatable for each in self.nodes)

    @property
    def used(self) -> float:
        return sum(each.used for each in self.nodes)

    @property
    def idle(self) -> float:
        return sum(each.idle for each in self.nodes)

    def hottest(self, most: int) -> list[WorkloadUse]:
        """By usage of what they ask for."""
        asking = [each for each in self.workloads if each.of_request is not None]
        return sorted(asking, key=lambda each: -(each.of_request or 0.0))[:most]

    def coldest(self, most: int) -> list[WorkloadUse]:
        """By CPU that is reserved and was never used."""
        idle = [each for each in self.workloads if each.unused > 0]
        return sorted(idle, key=lambda each: -each.unused)[:most]
