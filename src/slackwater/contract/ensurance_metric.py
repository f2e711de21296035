"""A metric of one's own for rules about quality: EnsuranceMetric, an object of ours.

It says where the values come from, in which order pods are acted on when they are too high, whether
pods can be throttled or evicted for it, and how what one pod releases is counted: the attributes
that Crane compiles into its agent, as data. A rule names it by the object's name, which has a '-':
neither Crane's metrics nor Prometheus' series have one, so no name means two things.
"""

import enum
import re
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane.fields import (
    NUMBERED_PORT_WANTED,
    EnsuranceStatus,
    HttpGet,
    Name,
    Selector,
)
from slackwater.contract.decoding import read_struct
from slackwater.contract.kubernetes import KubernetesObject, read_head
from slackwater.contract.schema import BOUND
from slackwater.model.metric import MetricKey
from slackwater.model.problem import InvalidError, Problem, quoted

KIND = "EnsuranceMetric"
METRIC_NAME = re.compile(r"(?=[^-]*-)[a-z][-a-z0-9]{0,61}[a-z0-9]", re.ASCII)
NAME_WITH_DASH = "a DNS label that begins with a letter and has a '-', such as queue-depth"
#: In a query, the name of the node that asks.
NODE_NAME = "$(NODE_NAME)"

_FILE_WANTED = "a file's name of letters, digits, '-', '_' and '.', not a path"
FileName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=253,
        pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.]*\Z",
        extra={BOUND: _FILE_WANTED},
    ),
]
SeriesName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z_:][A-Za-z0-9_:]*\Z",
        extra={BOUND: "a series' name such as queue_length"},
    ),
]
#: An hour: longer is a report, not a measurement.
Period = Annotated[int, Meta(ge=1, le=3600)]


class ProbeKind(enum.Enum):
    """The objects that have a probe."""

    NODE_QOS = "NodeQOS"
    NODE_QOS_ENSURANCE_POLICY = "NodeQOSEnsurancePolicy"
    POD_QOS = "PodQOS"


class ProbeReference(msgspec.Struct, frozen=True):
    """The httpGet probe of another object. It is asked once, for that object's rules and for this
    metric."""

    kind: Annotated[ProbeKind, Meta(description="The object's kind.")]
    name: Annotated[Name, Meta(description="The object's name.")]


class PromqlQuery(msgspec.Struct, frozen=True, rename="camel"):
    """An instant query of a Prometheus. Each element of the result is a series."""

    url: Annotated[
        str,
        Meta(
            min_length=8,
            max_length=1024,
            pattern=r"^https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~/-]*)?\Z",
            extra={BOUND: "a URL such as http://prometheus.monitoring:9090, without a user"},
            description="Where the Prometheus is; /api/v1/query is added to it.",
        ),
    ]
    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description=f"PromQL. {NODE_NAME} is replaced by the name of the node that asks.",
        ),
    ]
    bearer_token_file: Annotated[
        FileName | None,
        Meta(
            description="The name of a file with a bearer token, in the agent's folder of tokens. "
            "Read anew for each request."
        ),
    ] = None


class MetricFile(msgspec.Struct, frozen=True):
    """A file on the node, in Prometheus' text format. Whoever writes it renames it into place."""

    name: Annotated[
        FileName, Meta(description="The file's name, in the agent's folder of metric files.")
    ]


class PodPressure(msgspec.Struct, frozen=True):
    """The CPU pressure (PSI) of pods that are to be protected: percent of the time in which some of
    a pod's work waited for a CPU, without the time in which its own quota stopped it. One series
    for each pod."""

    selector: Annotated[
        Selector | None,
        Meta(
            description="Which pods, by their labels; without it, all that are Guaranteed or "
            "Burstable."
        ),
    ] = None


#: The keys of which a source has one.
SOURCES = ("probe", "httpGet", "promql", "file", "pressure")
#: Those whose answer has many series.
SERIES_SOURCES = ("probe", "httpGet", "file")


class MetricSource(msgspec.Struct, frozen=True, rename="camel"):
    """Where the values come from: exactly one of probe, httpGet, promql, file and pressure."""

    probe: ProbeReference | None = None
    http_get: HttpGet | None = None
    promql: PromqlQuery | None = None
    file: MetricFile | None = None
    pressure: PodPressure | None = None
    series: Annotated[
        SeriesName | None,
        Meta(
            description="With probe, httpGet and file: the series, such as queue_length, or "
            "NAME:p50, NAME:p90, NAME:p95, NAME:p99 for a quantile of the histogram NAME."
        ),
    ] = None
    period_seconds: Annotated[
        Period | None,
        Meta(
            description="How often it is asked, in seconds. Without it: promql every 15, the "
            "others once in each period of the agent. Has no effect on probe and pressure."
        ),
    ] = None
    timeout_seconds: Annotated[
        Period | None,
        Meta(
            description="How many seconds a whole answer to httpGet or promql may take. "
            "Without it: 1 for httpGet, 10 for promql."
        ),
    ] = None
    max_age_seconds: Annotated[
        Period,
        Meta(description="How many seconds old a value may be; an older one is missing."),
    ] = 60

    def kind(self) -> str:
        """The key of the one that is there."""
        return next((key for key, each in self.parts() if each is not None), "")

    def parts(self) -> Iterator[tuple[str, object]]:
        there = (self.probe, self.http_get, self.promql, self.file, self.pressure)
        yield from zip(SOURCES, there, strict=True)


class Comparator(enum.Enum):
    """By what two pods are compared; Crane's words, and the metric's own value."""

    CLASS_AND_PRIORITY = "classAndPriority"
    CPU_USAGE = "cpuUsage"
    EXT_CPU_USAGE = "extCpuUsage"
    MEMORY_USAGE = "memoryUsage"
    RUNNING_TIME = "runningTime"
    OWN_VALUE = "ownValue"


class SortDirection(enum.Enum):
    """Which of two pods is acted on first."""

    ASCENDING = "Ascending"
    DESCENDING = "Descending"


class PodComparison(msgspec.Struct, frozen=True):
    """One comparison of two pods."""

    by: Annotated[
        Comparator,
        Meta(
            description="classAndPriority: the QoS class, then the priority. cpuUsage and "
            "memoryUsage: what the pod uses. extCpuUsage: its share of the gocrane.io/cpu that "
            "it was given. runningTime: how long it has been running. ownValue: this metric's "
            "value with the pod's label PodUid, or PodName and PodNamespace."
        ),
    ]
    order: Annotated[
        SortDirection,
        Meta(description="Ascending: the pod with the smaller one is acted on first."),
    ] = SortDirection.ASCENDING


class ReleaseUnit(enum.Enum):
    """How much of the metric goes with one pod."""

    CPU_USAGE = "cpuUsage"
    MEMORY_USAGE = "memoryUsage"
    OWN_VALUE = "ownValue"
    NONE = "none"


class EnsuranceMetricSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Where the metric's values come from, and what can be done about it."""

    source: MetricSource
    action_priority: Annotated[
        Annotated[int, Meta(ge=0, le=10)],
        Meta(
            description="Of several metrics above their values of which one cannot be quantified, "
            "the one with the highest priority is acted on; 10 is the highest. Crane's is 5."
        ),
    ] = 0
    sort: Annotated[
        tuple[PodComparison, ...],
        Meta(
            max_length=8,
            description="In which order pods are acted on: the first comparison in which two pods "
            "differ counts. Without it: classAndPriority, runningTime.",
        ),
    ] = ()
    throttleable: Annotated[
        bool, Meta(description="Whether throttling pods lowers the metric.")
    ] = False
    throttle_quantified: Annotated[
        bool,
        Meta(
            description="Whether `release` tells how much: then no more pods are throttled than "
            "the gap to the rule's value needs. Otherwise all that the action may touch are."
        ),
    ] = False
    evictable: Annotated[bool, Meta(description="Whether evicting pods lowers the metric.")] = False
    evict_quantified: Annotated[
        bool, Meta(description="The same as throttleQuantified, of evictions.")
    ] = False
    release: Annotated[
        ReleaseUnit,
        Meta(
            description="How much of the metric one pod releases: its CPU usage in milliCPU, its "
            "memory in bytes, or the metric's own value of the pod. none: nobody can tell."
        ),
    ] = ReleaseUnit.NONE
    description: Annotated[str, Meta(max_length=1024, description="For people.")] = ""


class EnsuranceMetric(KubernetesObject, frozen=True):
    """A metric of one's own that rules of a NodeQOS may name: where its values come from, whether
    pods can be throttled or evicted for it, and in which order."""

    spec: EnsuranceMetricSpec
    status: EnsuranceStatus | None = None

    def key(self) -> MetricKey:
        """The metric that a rule means by the object's name."""
        source = self.spec.source
        if source.probe is not None:
            title = f"{source.probe.kind.value}/{source.probe.name}"
            return MetricKey(source.series or self.metadata.name, title)
        return MetricKey(source.series or self.metadata.name, metric_title(self))


def metric_title(metric: EnsuranceMetric) -> str:
    """The name of a source of metrics: EnsuranceMetric/queue-depth."""
    return f"{KIND}/{metric.metadata.name}"


def read_ensurance_metric(document: object, source: str) -> EnsuranceMetric:
    """Raises InvalidError."""
    head, found = read_head(document, source)
    metric = read_struct(found, EnsuranceMetric)
    problems = [
        msgspec.structs.replace(each, document=found.document) for each in _flaws(metric, head.name)
    ]
    if problems:
        raise InvalidError(*problems)
    return metric


def _flaws(metric: EnsuranceMetric, name: str) -> Iterator[Problem]:
    if not METRIC_NAME.fullmatch(name):
        yield Problem("metadata.name", quoted(name), NAME_WITH_DASH)
    yield from _flaws_of_source(metric.spec.source)
    yield from _flaws_of_sort(metric.spec.sort)
    yield from _flaws_of_release(metric.spec)


def _flaws_of_source(source: MetricSource) -> Iterator[Problem]:
    found = [key for key, each in source.parts() if each is not None]
    if len(found) != 1:
        seen = " and ".join(found) or "none"
        yield Problem("the kind of spec.source", seen, f"one of {', '.join(SOURCES)}")
    elif found[0] in SERIES_SOURCES and source.series is None:
        yield Problem("spec.source.series", "missing", f"there with {found[0]}")
    elif found[0] not in SERIES_SOURCES and source.series is not None:
        wanted = f"absent with {found[0]}"
        yield Problem("spec.source.series", quoted(source.series), wanted)
    if source.pressure is not None and source.pressure.selector is not None:
        bad = source.pressure.selector.flaw("spec.source.pressure.selector")
        if bad is not None:
            yield bad
    if source.http_get is not None and isinstance(source.http_get.port, str):
        seen = quoted(source.http_get.port)
        yield Problem("spec.source.httpGet.port", seen, NUMBERED_PORT_WANTED)


def _flaws_of_sort(sort: tuple[PodComparison, ...]) -> Iterator[Problem]:
    names = [each.by.value for each in sort]
    for place, name in enumerate(names):
        if name in names[:place]:
            first = f"spec.sort[{names.index(name)}] compares by it already"
            yield Problem(f"spec.sort[{place}].by", quoted(name), f"another one: {first}")


def _flaws_of_release(spec: EnsuranceMetricSpec) -> Iterator[Problem]:
    rows = (
        ("throttle", spec.throttle_quantified, spec.throttleable),
        ("evict", spec.evict_quantified, spec.evictable),
    )
    for verb, quantified, able in rows:
        path = f"spec.{verb}Quantified"
        if quantified and not able:
            yield Problem(path, "true", f"false where spec.{verb}able is")
        if quantified and spec.release is ReleaseUnit.NONE:
            yield Problem(path, "true", "false where spec.release is none")
    if spec.throttle_quantified and spec.release is ReleaseUnit.MEMORY_USAGE:
        wanted = "false where spec.release is memoryUsage: a throttle releases no memory"
        yield Problem("spec.throttleQuantified", "true", wanted)
