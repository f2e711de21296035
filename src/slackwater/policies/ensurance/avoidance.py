"""Which pods are throttled further, which are restored, and which are evicted in this tick.

With metrics that can be counted: pod after pod in the metric's order until the gap to the
watermark is closed. Where a metric cannot be counted, all selected pods. A metric of which nobody
can say what a throttle releases, such as a service's latency, demotes pods first: the quota follows
when the metric is above its value for as many measurements again, at least three, in a row, because
the weight alone costs the pods next to nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Because, Command, CommandKind, RuleState
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.workload import Workload
from slackwater.policies.ensurance.bound_rules import RuleLook
from slackwater.policies.ensurance.counting import Verdict
from slackwater.policies.ensurance.metric_attributes import CPU_SORT, ReleaseCount
from slackwater.policies.ensurance.pod_order import PodFigures, measure_pods, sort_pods
from slackwater.policies.ensurance.pod_selection import SelectionRules, select_pods
from slackwater.policies.ensurance.relief import (
    TriggeredMetric,
    has_part,
    read_whole,
    release_of,
    release_of_throttle,
    take_until_closed,
)
from slackwater.policies.ensurance.throttle import (
    ContainerClaim,
    ThrottleRatios,
    lower_claims,
    raise_claims,
)


class ThrottledPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that is throttled: because of which rules, since when why, and the claims of its
    containers by their names. Without claims it is only demoted."""

    rules: tuple[str, ...]
    because: Because
    claims: dict[str, ContainerClaim] = {}


#: By the pod's uid.
Throttled = dict[str, ThrottledPod]


class PodChoice:
    """Whom which action may touch, worked out once in a tick and only if somebody asks."""

    def __init__(self, snapshot: NodeSnapshot, rules: SelectionRules) -> None:
        self._workloads = snapshot.workloads
        self._rules = rules
        self._by_action: dict[str, dict[str, Workload]] = {}

    def of(self, action: str) -> Mapping[str, Workload]:
        """By uid."""
        if action not in self._by_action:
            found = select_pods(self._workloads, self._rules, action)
            self._by_action[action] = {pod.uid: pod for pod in found}
        return self._by_action[action]

    def overrules(self, pod: Workload) -> bool:
        """Whether its own word that it is exempt does not count."""
        return self._rules.overrules(pod)

    def of_rule(self, look: RuleLook) -> Mapping[str, Workload]:
        return self.of(look.bound.rule.action_name)

    def of_rules(self, looks: Iterable[RuleLook]) -> dict[str, Workload]:
        return {uid: pod for look in looks for uid, pod in self.of_rule(look).items()}


def keep_supported(throttled: Throttled, looks: Sequence[RuleLook], choice: PodChoice) -> Throttled:
    """Without pods that are gone or may not be touched any more, and without rules that went, were
    changed into something else, or lacked their metric for too long."""
    rules = {look.title(): look for look in looks if look.is_in_force() and look.bound.ratios()}
    found: Throttled = {}
    for uid, each in throttled.items():
        titles = tuple(t for t in each.rules if t in rules and uid in choice.of_rule(rules[t]))
        if titles == each.rules:
            found[uid] = each
        elif titles:
            found[uid] = msgspec.structs.replace(each, rules=titles)
    return found


class ThrottlePass:
    """One tick's throttling of pods. Built for a tick, and then forgotten."""

    def __init__(
        self, snapshot: NodeSnapshot, throttled: Throttled, choice: PodChoice, *, demote: bool
    ) -> None:
        self.throttled = dict(throttled)
        self._snapshot = snapshot
        self._choice = choice
        self._demote = demote
        #: Whether pods were to step down and none could: all are at their minimum.
        self.is_exhausted = False
        self._stepped: dict[str, float] = {}
        self._triggered: tuple[RuleLook, ...] = ()

    def lower(self, metrics: Sequence[TriggeredMetric]) -> None:
        """Of rules that throttle, highest action priority first."""
        self._triggered = tuple(look for metric in metrics for look in metric.looks)
        usable = [each for each in metrics if each.attributes.throttleable]
        waiting = [each for each in usable if self.only_demotes(each)]
        for metric in waiting:
            for pod in self._pods(metric.looks).values():
                self._touch(pod, metric, metric.looks)
        stepping = [each for each in usable if each not in waiting]
        claims = {uid: each.claims for uid, each in self.throttled.items()}
        self._step(stepping)
        same = all(claims.get(uid) == self.throttled[uid].claims for uid in self._stepped)
        self.is_exhausted = bool(self._stepped) and same

    def _step(self, stepping: Sequence[TriggeredMetric]) -> None:
        if any(not _is_throttle_counted(each) for each in stepping):
            looks = tuple(look for metric in stepping for look in metric.looks)
            for pod in self._pods(looks).values():
                self._step_down(pod, stepping[0], looks)
            return
        for metric in stepping:
            self._close_gap(metric)

    def only_demotes(self, metric: TriggeredMetric) -> bool:
        """Whether pods get the lowest weight only: no need to know what they use."""
        if not self._demote or metric.attributes.throttle_quantified:
            return False
        return all(each.memory.above < each.counting.counts_above() for each in metric.looks)

    def _pods(self, looks: Iterable[RuleLook]) -> dict[str, Workload]:
        return {
            uid: pod
            for uid, pod in self._choice.of_rules(looks).items()
            if isinstance(pod.ref, CgroupRef) and not pod.terminating
        }

    def _close_gap(self, metric: TriggeredMetric) -> None:
        gap = metric.gap or 0.0
        pods = measure_pods(self._snapshot, self._pods(metric.looks).values(), metric.attributes)
        for each in sort_pods(pods, metric.attributes.sort, self._snapshot.wall_time):
            if gap <= 0:
                return
            if not has_part(each, metric.attributes.release):
                continue
            taken = self._step_down(each.pod, metric, metric.looks)
            gap -= release_of_throttle(each, metric.attributes.release, taken)

    def _step_down(
        self, pod: Workload, metric: TriggeredMetric, looks: tuple[RuleLook, ...]
    ) -> float:
        """Released, in milliCPU. A pod takes one step in a tick, whatever the metrics."""
        if pod.uid in self._stepped:
            return self._stepped[pod.uid]
        before = self.throttled.get(pod.uid)
        ratios = self._ratios(pod, self._triggered)
        step = lower_claims(self._snapshot, pod, before.claims if before else {}, ratios)
        self._touch(pod, metric, looks, step.claims)
        self._stepped[pod.uid] = step.amount
        return step.amount

    def _touch(
        self,
        pod: Workload,
        metric: TriggeredMetric,
        looks: tuple[RuleLook, ...],
        claims: dict[str, ContainerClaim] | None = None,
    ) -> None:
        """Notes that these rules throttle the pod. Its reason stays while its claims do."""
        before = self.throttled.get(pod.uid)
        here = {look.title() for look in looks if pod.uid in self._choice.of_rule(look)}
        titles = tuple(sorted(here.union(before.rules if before else ())))
        if before is None or (claims is not None and claims != before.claims):
            self.throttled[pod.uid] = ThrottledPod(titles, metric.because(), claims or {})
        elif titles != before.rules:
            self.throttled[pod.uid] = msgspec.structs.replace(before, rules=titles)

    def _ratios(self, pod: Workload, looks: Iterable[RuleLook]) -> ThrottleRatios:
        """Of several actions: the largest step, and the largest minimum."""
        found = [
            ratios
            for look in looks
            if (ratios := look.bound.ratios()) and pod.uid in self._choice.of_rule(look)
        ]
        return ThrottleRatios(
            max((each.step for each in found), default=0),
            max((each.least for each in found), default=0),
        )

    def restore(self, looks: Sequence[RuleLook]) -> bool:
        """Pods whose rules are all restored take a step up, those that were taken last first, while
        there is room below every watermark. Whether all of them could."""
        rules = {look.title(): look for look in looks}
        ready = {
            uid: each
            for uid, each in self.throttled.items()
            if uid not in self._stepped and all(_is_restoring(rules[title]) for title in each.rules)
        }
        if not ready:
            return True
        by_uid = self._choice.of_rules(
            rules[title] for each in ready.values() for title in each.rules
        )
        pods = measure_pods(self._snapshot, (by_uid[uid] for uid in ready))
        room = _find_room(self._snapshot, looks)
        for each in reversed(sort_pods(pods, CPU_SORT, self._snapshot.wall_time)):
            room = self._step_up(each, [rules[t] for t in ready[each.pod.uid].rules], room)
            if room < 0:
                return False
        return True

    def _step_up(self, figures: PodFigures, looks: list[RuleLook], room: float) -> float:
        """The room that is left; less than 0 where there was too little, and nothing was done."""
        pod = figures.pod
        before = self.throttled[pod.uid]
        step = raise_claims(self._snapshot, pod, before.claims, self._ratios(pod, looks))
        if step.amount > room:
            return -1.0
        if step.claims:
            self.throttled[pod.uid] = msgspec.structs.replace(before, claims=step.claims)
        else:
            del self.throttled[pod.uid]
        return room - step.amount


def _is_throttle_counted(metric: TriggeredMetric) -> bool:
    return metric.attributes.throttle_quantified and metric.gap is not None


def _is_restoring(look: RuleLook) -> bool:
    return look.memory.state is RuleState.RESTORING and look.verdict is Verdict.RESTORED


def _find_room(snapshot: NodeSnapshot, looks: Iterable[RuleLook]) -> float:
    """milliCPU up to the nearest watermark of the rules that throttle and can be counted."""
    room = float("inf")
    for look in looks:
        counted = (
            look.attributes.throttle_quantified
            and look.attributes.release is ReleaseCount.CPU
            and look.bound.ratios() is not None
        )
        whole = read_whole(snapshot, look.attributes) if counted else None
        if look.bound.acts() and look.seen is not None and whole is not None:
            room = min(room, max(look.limit - look.seen, 0.0) * whole)
    return room


def choose_evictions(
    snapshot: NodeSnapshot,
    metrics: Sequence[TriggeredMetric],
    choice: PodChoice,
    in_flight: frozenset[str],
    most: int,
    by: str,
) -> list[Command]:
    """Of rules that evict, highest action priority first; the first pods in the order they go in,
    `most` of them."""
    usable = [each for each in metrics if each.attributes.evictable]
    chosen: dict[str, tuple[PodFigures, TriggeredMetric]] = {}
    if any(not _is_eviction_counted(each) for each in usable):
        looks = tuple(look for metric in usable for look in metric.looks)
        for each in _candidates(snapshot, usable[0], looks, choice, in_flight):
            chosen[each.pod.uid] = (each, usable[0])
    else:
        for metric in usable:
            _choose_for(snapshot, metric, choice, in_flight, chosen)
    return [
        _evict(snapshot, figures, metric, metrics, choice, by)
        for figures, metric in islice(chosen.values(), most)
    ]


def _is_eviction_counted(metric: TriggeredMetric) -> bool:
    return metric.attributes.evict_quantified and metric.gap is not None


def _choose_for(
    snapshot: NodeSnapshot,
    metric: TriggeredMetric,
    choice: PodChoice,
    in_flight: frozenset[str],
    chosen: dict[str, tuple[PodFigures, TriggeredMetric]],
) -> None:
    """Those that already go for another metric release something of this one as well."""
    release = metric.attributes.release
    going = measure_pods(snapshot, (each.pod for each, _ in chosen.values()), metric.attributes)
    gap = (metric.gap or 0.0) - sum(release_of(each, release) or 0 for each in going)
    left = [
        each
        for each in _candidates(snapshot, metric, metric.looks, choice, in_flight)
        if each.pod.uid not in chosen
    ]
    for each in take_until_closed(left, gap, lambda one: release_of(one, release)):
        chosen[each.pod.uid] = (each, metric)


def _candidates(
    snapshot: NodeSnapshot,
    metric: TriggeredMetric,
    looks: Iterable[RuleLook],
    choice: PodChoice,
    in_flight: frozenset[str],
) -> list[PodFigures]:
    pods = [
        pod
        for uid, pod in choice.of_rules(looks).items()
        if not pod.terminating and uid not in in_flight
    ]
    figures = measure_pods(snapshot, pods, metric.attributes)
    return sort_pods(figures, metric.attributes.sort, snapshot.wall_time)


def _evict(
    snapshot: NodeSnapshot,
    figures: PodFigures,
    metric: TriggeredMetric,
    metrics: Sequence[TriggeredMetric],
    choice: PodChoice,
    by: str,
) -> Command:
    pod = figures.pod
    relief: dict[str, float] = {}
    for each in metrics:
        (measured,) = measure_pods(snapshot, (pod,), each.attributes)
        amount = release_of(measured, each.attributes.release)
        whole = read_whole(snapshot, each.attributes)
        if amount is not None and whole:
            relief[each.key.title()] = amount / whole
    graces = [
        grace
        for each in metrics
        for look in each.looks
        if pod.uid in choice.of_rule(look) and (grace := _grace(look)) is not None
    ]
    return Command(
        key=f"evict/{pod.uid}",
        kind=CommandKind.EVICT,
        target=pod.title(),
        because=metric.because(),
        by=by,
        uid=pod.uid,
        grace_seconds=min(graces, default=None),
        relief=relief,
        overrules_exemption=choice.overrules(pod),
    )


def _grace(look: RuleLook) -> int | None:
    action = look.bound.action
    eviction = action.spec.eviction if action else None
    return eviction.termination_grace_period_seconds if eviction else None
