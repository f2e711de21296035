"""All sources of metrics that have to be asked, and the threads that ask them.

Guards what was asked last and when. The tick only takes what is there, and says thereby what it
wants: a source that no tick has named for three periods is not asked. Threads come as they are
needed: one while every answer comes in time, never more than may be asked at a time.
"""

import threading
from collections.abc import Callable, Iterator

import msgspec

from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Sample, Samples
from slackwater.model.units import Micros, format_age
from slackwater.model.workload import Workload
from slackwater.observation.probes.answers import Answer, Asker
from slackwater.observation.probes.http_probe import node_target, pod_target
from slackwater.observation.probes.node_file import FileTarget
from slackwater.observation.probes.pod_labels import label_samples
from slackwater.observation.probes.pod_pressure import PressureTarget
from slackwater.observation.probes.prometheus_query import QueryTarget
from slackwater.observation.probes.schedule import MOST_AT_A_TIME, Target, begin, choose_next, end
from slackwater.observation.probes.sources import (
    NodeFile,
    NodeProbe,
    PodProbe,
    PressureSource,
    PrometheusQuery,
    SourceDescription,
    Sources,
)
from slackwater.policies.ensurance.pod_selection import matches

#: Pods of one PodQOS that are asked in one period, the kubelet's usual most; where there are more,
#: each is asked less often.
MOST_PODS = 110
#: How long an answer counts, and how long a metric counts as wanted.
_PERIODS = 3
_MICROS_PER_SECOND = 1_000_000


class ProbeContext(msgspec.Struct, frozen=True):
    """What sources need to know of the node. `node_address` is whom probes without a host ask;
    without `mounts` there is no pressure."""

    period: Micros
    clock: Callable[[], Micros]
    node_address: str = "127.0.0.1"
    mounts: CgroupMounts | None = None


class _Source:
    """One object's source: its description, its targets, and what was wanted of it when."""

    def __init__(self, description: SourceDescription, period: Micros) -> None:
        self.description = description
        self._period = _micros(description.times.period) or period
        #: A source has one, called "", or one for each pod, whose key changes with its address.
        self.targets: dict[str, Target] = {}
        self.wanted: dict[str, Micros] = {}

    def period(self) -> Micros:
        return Micros(self._period * -(-len(self.targets) // MOST_PODS))

    def is_stale(self, target: Target, age: int) -> bool:
        """An answer that takes longer than three periods is not stale when it comes."""
        own = _micros(self.description.times.max_age)
        return age > (own or _PERIODS * self.period() + target.took)


class ProbeSet:
    """`update` and `samples` are for the tick and never wait for anybody; `start` lets threads ask.
    Without it, `ask_due` asks in the caller's own thread."""

    def __init__(self, context: ProbeContext) -> None:
        self._context = context
        self._given: Sources = {}
        self._workloads: tuple[Workload, ...] = ()
        self._sources: dict[str, _Source] = {}
        self._changed = threading.Condition()
        self._running = False
        self._threads = 0
        self._idle = 0

    def update(self, sources: Sources, workloads: tuple[Workload, ...]) -> None:
        """Cheap where both are the same objects as last time. A source whose description is the
        same keeps what it said."""
        if sources is self._given and workloads is self._workloads:
            return
        with self._changed:
            self._given, self._workloads = sources, workloads
            kept, self._sources = self._sources, {}
            for title, description in sources.items():
                source = kept.get(title)
                if source is None or source.description != description:
                    source = _Source(description, self._context.period)
                source.targets = dict(self._targets(source))
                self._sources[title] = source
            self._changed.notify_all()

    def samples(self, key: MetricKey, at: Micros) -> Samples | Gap:
        """What the source last said about this metric; from now on it is asked for it."""
        with self._changed:
            source = self._sources.get(key.source)
            if source is None:
                return Gap(f"there is no {key.source} that could be asked")
            if key.name not in source.wanted:
                for target in source.targets.values():
                    target.due = at
                self._changed.notify()
            source.wanted[key.name] = at
            self._provide_thread(at)
            return _answer(source, key, at)

    def start(self) -> None:
        with self._changed:
            self._running = True

    def stop(self) -> None:
        """Does not wait: what is under way ends at its timeout, and nobody hears of it."""
        with self._changed:
            self._running = False
            self._changed.notify_all()

    def ask_due(self) -> int:
        """Asks all whose time has come, one after another; gives how many those were."""
        count = 0
        while (found := self._take()) is not None:
            self._ask(*found)
            count += 1
        return count

    def _targets(self, source: _Source) -> Iterator[tuple[str, Target]]:
        """Those that are there already stay as they are."""
        description, known, clock = source.description, source.targets, self._context.clock
        if isinstance(description, PodProbe):
            for pod in self._workloads:
                # A pod of which only the cgroup is known has neither labels nor an address.
                if pod.namespace and matches(description.pod_qos, pod):
                    key = f"{pod.uid} {pod.address} {sorted(pod.ports.items())}"
                    target = known.get(key)
                    yield key, target or Target(pod_target(description, pod, clock), pod)
            return
        target = known.get("") or Target(self._asker(description))
        if isinstance(description, PressureSource) and isinstance(target.asker, PressureTarget):
            target.asker.pods = tuple(
                pod for pod in self._workloads if pod.namespace and description.selects(pod)
            )
        yield "", target

    def _asker(
        self, description: NodeProbe | PrometheusQuery | NodeFile | PressureSource
    ) -> Asker | Gap:
        context = self._context
        match description:
            case NodeProbe():
                return node_target(description, context.node_address, context.clock)
            case PrometheusQuery():
                return QueryTarget(description, context.clock)
            case NodeFile():
                return FileTarget(description, context.clock)
            case PressureSource():
                if context.mounts is None:
                    return Gap("there are no cgroups to read")
                return PressureTarget(context.mounts, context.clock)

    def _wanted(self, now: Micros) -> Iterator[Target]:
        """The targets of all sources that somebody wants."""
        oldest = now - _PERIODS * self._context.period
        for source in self._sources.values():
            for name in [name for name, at in source.wanted.items() if at < oldest]:
                del source.wanted[name]
            if source.wanted:
                yield from source.targets.values()

    def _take(self) -> tuple[_Source, Target, Asker, frozenset[str]] | None:
        """Who is asked now, and for what; None where nobody is due."""
        with self._changed:
            now = self._context.clock()
            target = choose_next(self._wanted(now), now).target
            if target is None or isinstance(target.asker, Gap):
                return None
            source = next(
                each for each in self._sources.values() if target in each.targets.values()
            )
            begin(target, now)
            return source, target, target.asker, frozenset(source.wanted)

    def _ask(self, source: _Source, target: Target, asker: Asker, names: frozenset[str]) -> None:
        found: Answer | Gap = Gap("asking it ended in an error of ours")
        try:
            found = asker.ask(names)
            if isinstance(found, Answer):
                found = found.stamped()
        finally:
            with self._changed:
                end(target, found, self._context.clock(), source.period())
                self._changed.notify()

    def _provide_thread(self, now: Micros) -> None:
        """Where somebody is due and no thread waits for it."""
        if not self._running or self._idle or self._threads >= MOST_AT_A_TIME:
            return
        if choose_next(self._wanted(now), now).target is not None:
            self._threads += 1
            threading.Thread(target=self._work, name="probes", daemon=True).start()

    def _work(self) -> None:
        """A thread that an error of ours ends is replaced when it is needed."""
        try:
            while self._wait():
                found = self._take()
                if found is not None:
                    self._ask(*found)
        finally:
            with self._changed:
                self._threads -= 1

    def _wait(self) -> bool:
        """Until somebody is due; False when it is over."""
        with self._changed:
            while self._running:
                now = self._context.clock()
                turn = choose_next(self._wanted(now), now)
                if turn.target is not None:
                    return True
                self._idle += 1
                seconds = None if turn.again is None else (turn.again - now) / _MICROS_PER_SECOND
                self._changed.wait(seconds)
                self._idle -= 1
            return False


def _answer(source: _Source, key: MetricKey, at: Micros) -> Samples | Gap:
    if not source.targets:
        return Gap(f"no pod of this node is one of {key.source}", is_idle=True)
    found: list[Sample] = []
    reasons: list[str] = []
    gaps: list[Gap] = []
    for target in source.targets.values():
        samples = _current(source, target, key.name, at)
        if not isinstance(samples, Gap):
            found += samples if target.pod is None else label_samples(samples, target.pod)
        else:
            whose = "" if target.pod is None else f"{target.pod.title()}: "
            reasons.append(f"{whose}{samples.reason}")
            gaps.append(samples)
    if found:
        return tuple(found)
    more = f"; and {len(reasons) - 1} more pods" if len(reasons) > 1 else ""
    is_idle = all(each.is_idle for each in gaps)
    return Gap(f"{min(reasons)}{more}", is_idle, all(each.is_lasting for each in gaps))


def _current(source: _Source, target: Target, name: str, at: Micros) -> Samples | Gap:
    """What a target said, unless it is too old; then why there is nothing newer."""
    answer = target.answer
    if answer is None:
        return target.failure or Gap("it has not answered yet")
    age = at - answer.at
    if source.is_stale(target, age):
        told = f": {target.failure.reason}" if target.failure else ""
        return Gap(f"the last answer is {format_age(Micros(age))} old{told}")
    return answer.metrics.get(name, Gap("it was not asked for this yet"))


def _micros(seconds: float) -> Micros:
    return Micros(int(seconds * _MICROS_PER_SECOND))
