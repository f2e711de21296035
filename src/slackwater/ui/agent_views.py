"""The pages about one agent: the node live, its pods, its CPUs, its policies.

Pure: an agent's answers in, what the templates show out.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from slackwater.model.cpus import CpuPolicy
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import list_numbers
from slackwater.record.cpu_map import ContainerCpus, CpuMap, CpuRow
from slackwater.record.explanation import ContributionRow, Explanation, describe_contribution
from slackwater.record.overview import Overview, UsageRow
from slackwater.ui.agent_watch import NodeSample
from slackwater.ui.charts import Chart, ChartSeries, make_chart

_TITLES = {policy.name: policy.description for policy in POLICIES}
#: Pods of one page; a node has 110 mostly.
MOST_PODS = 250


class ContributionLine(msgspec.Struct, frozen=True):
    """What a policy wants of a knob, and the numbers that it went by."""

    policy: str
    text: str
    numbers: str


class KnobView(msgspec.Struct, frozen=True):
    """One value that is set, and why."""

    row: Explanation
    lines: tuple[ContributionLine, ...]
    remarks: tuple[str, ...]


class PolicyView(msgspec.Struct, frozen=True):
    """One policy of an agent: acting, holding, off, or idle, and what it did."""

    name: str
    description: str
    state: str
    reason: str
    values: tuple[str, ...]
    since: str | None = None


def usage_chart(samples: Sequence[NodeSample], allocatable: int | None) -> Chart | None:
    """The node, best-effort work and its bound over the last minutes."""
    return make_chart(
        "CPU of the node, of best-effort pods, and their quota, over the last minutes",
        (
            ChartSeries("node", "node", tuple((each.at, each.used) for each in samples)),
            ChartSeries(
                "best effort", "batch", tuple((each.at, each.best_effort) for each in samples)
            ),
            ChartSeries("quota of best effort", "quota", tuple((s.at, s.quota) for s in samples)),
        ),
        least_top=float(allocatable or 0),
    )


def forecast_chart(samples: Sequence[NodeSample], allocatable: int | None) -> Chart | None:
    """What was predicted that others use, and what they used."""
    predicted = ChartSeries("forecast", "forecast", tuple((s.at, s.predicted) for s in samples))
    if predicted.is_empty():
        return None
    return make_chart(
        "The forecast of what cannot be sold, and the CPU used, over the last minutes",
        (ChartSeries("used", "node", tuple((s.at, s.measured) for s in samples)), predicted),
        least_top=float(allocatable or 0),
    )


def knob_views(rows: Sequence[Explanation]) -> tuple[KnobView, ...]:
    return tuple(
        KnobView(row, tuple(_lines(row)), tuple(_remarks(row))) for row in rows if row.knob
    )


def _lines(row: Explanation) -> Iterator[ContributionLine]:
    told: set[str] = set()
    for part in row.contributions:
        numbers: Mapping[str, int] = {}
        if part.policy not in told:
            numbers = row.numbers.get(part.policy, {})
        told.add(part.policy)
        yield _line(part, numbers)


def _line(part: ContributionRow, numbers: Mapping[str, int]) -> ContributionLine:
    text = describe_contribution(part)
    return ContributionLine(part.policy, text, _in_words(part.policy, numbers) if numbers else "")


def _in_words(policy: str, numbers: Mapping[str, int]) -> str:
    said = {each.name: each.explain_numbers for each in POLICIES}
    return said.get(policy, list_numbers)(numbers)


def _remarks(row: Explanation) -> Iterator[str]:
    if row.clipped_by:
        yield f"clipped by {row.clipped_by}"
    if row.contest:
        yield f"contested: {row.contest}"
    for hold in row.holds:
        yield f"{hold.policy}: {hold.reason}"
    yield from row.remarks
    if row.last_drift:
        yield row.last_drift.text


def general_row(rows: Sequence[Explanation]) -> Explanation | None:
    """The one about everything: holds, remarks, rules, offers, commands."""
    return next((row for row in rows if not row.knob), None)


def policy_views(rows: Sequence[Explanation]) -> tuple[PolicyView, ...]:
    """Those that act first, those that are off last. A policy that the agent does not speak of
    wants nothing now."""
    general = general_row(rows)
    holds = {hold.policy: hold for hold in general.holds} if general else {}
    found: list[PolicyView] = []
    for name in dict.fromkeys((*_TITLES, *holds, *_contributors(rows))):
        values = tuple(_values(rows, name))
        hold = holds.get(name)
        state = "acting" if values else (hold.course if hold else "idle")
        state = {"acted": "idle", "held": "holding"}.get(state, state)
        reason = hold.reason if hold else ("" if values else "it wants nothing of this node now")
        since = hold.since if hold else None
        found.append(PolicyView(name, _TITLES.get(name, ""), state, reason, values, since))
    order = ("acting", "holding", "released", "idle", "off")
    return tuple(sorted(found, key=lambda each: order.index(each.state)))


def _contributors(rows: Sequence[Explanation]) -> Iterator[str]:
    for row in rows:
        yield from (part.policy for part in row.contributions)


def _values(rows: Sequence[Explanation], policy: str) -> Iterator[str]:
    for row in rows:
        for part in row.contributions:
            if part.policy == policy:
                yield f"{row.knob} of {row.target}: {describe_contribution(part)}"


class PodsView(msgspec.Struct, frozen=True):
    """Those of a name or namespace that has `wanted` in it; `left_out` are too many to list."""

    pods: tuple[UsageRow, ...]
    wanted: str
    left_out: int


def pods_view(shown: Overview, wanted: str) -> PodsView:
    fitting = [pod for pod in shown.pods if wanted in f"{pod.namespace}/{pod.name}"]
    return PodsView(tuple(fitting[:MOST_PODS]), wanted, max(len(fitting) - MOST_PODS, 0))


class CpuCell(msgspec.Struct, frozen=True):
    """One CPU: its number, whose it is, and the number of its container in the list."""

    number: int
    style: str
    mark: str
    title: str


class CpuCache(msgspec.Struct, frozen=True):
    """The cores below one last-level cache, each with its threads."""

    name: str
    cores: tuple[tuple[CpuCell, ...], ...]


class CpuSocket(msgspec.Struct, frozen=True):
    name: str
    caches: tuple[CpuCache, ...]


class CpusView(msgspec.Struct, frozen=True):
    """`owners` are the containers with CPUs of their own, in the order of their numbers."""

    map: CpuMap
    sockets: tuple[CpuSocket, ...]
    owners: tuple[ContainerCpus, ...]
    others: int


def cpus_view(found: CpuMap) -> CpusView:
    owners = tuple(
        each
        for policy in (CpuPolicy.EXCLUSIVE, CpuPolicy.SHARE)
        for each in found.containers
        if each.policy == policy.value
    )
    marks = {each.title(): str(number) for number, each in enumerate(owners, start=1)}
    ordered = sorted(found.cpus, key=lambda row: (row.socket, row.numa, row.l3, row.core, row.cpu))
    sockets = tuple(
        CpuSocket(_socket_name(number, rows), tuple(_caches(rows, marks)))
        for number, group in itertools.groupby(ordered, key=lambda row: row.socket)
        for rows in (list(group),)
    )
    return CpusView(found, sockets, owners, len(found.containers) - len(owners))


def _socket_name(number: int, rows: Sequence[CpuRow]) -> str:
    nodes = sorted({row.numa for row in rows})
    word = "node" if len(nodes) == 1 else "nodes"
    return f"socket {number}, NUMA {word} {', '.join(map(str, nodes))}"


def _caches(rows: Sequence[CpuRow], marks: Mapping[str, str]) -> Iterator[CpuCache]:
    for l3, cached in itertools.groupby(rows, key=lambda row: row.l3):
        cores = itertools.groupby(cached, key=lambda row: row.core)
        cells = tuple(tuple(_cell(row, marks) for row in threads) for _, threads in cores)
        yield CpuCache(f"L3 cache of CPU {l3}", cells)


def _cell(row: CpuRow, marks: Mapping[str, str]) -> CpuCell:
    if row.exclusive:
        return CpuCell(row.cpu, "exclusive", marks.get(row.exclusive, ""), row.exclusive)
    if row.shared:
        mark = ",".join(marks.get(each, "") for each in row.shared)
        return CpuCell(row.cpu, "share", mark, ", ".join(row.shared))
    if row.reserved:
        return CpuCell(row.cpu, "reserved", "R", "reserved: no container has it alone")
    return CpuCell(row.cpu, "common", "", "every container without CPUs of its own")
