"""Why each value is what it is, or why nothing happened: what `slackwater explain` asks for.

One row for each knob that is granted or held, and one for a target without any. Built only from
recorded ticks, so a recording is explained exactly like a running agent. The structs are the stable
form behind -o json and -o yaml.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.decision import (
    Because,
    Contribution,
    Grant,
    PolicyAction,
    PolicyReport,
    Remark,
)
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.knob import KNOBS, KnobValue
from slackwater.model.plan import Outcome, Result
from slackwater.model.snapshot import Held
from slackwater.model.units import Bandwidth
from slackwater.model.workload import Workload
from slackwater.record.agent_view import API_VERSION, AgentView
from slackwater.record.journal import TickRecord, format_amount, format_value
from slackwater.record.offers import OfferRow, offer_rows
from slackwater.record.rules import CommandRow, RuleRow, command_rows, rule_rows
from slackwater.record.targets import (
    EVERYTHING,
    NODE,
    TargetScope,
    find_pod,
    find_scopes,
    target_name,
)

_HIDDEN = "cpu.idle hides it: an idle group has the lowest weight"
_FAILED = frozenset({Result.REFUSED, Result.UNSUPPORTED, Result.VANISHED})
NOT_YET = "the agent has not looked yet"
_VERBS = {
    "base": "starts it from",
    "raise": "adds",
    "scale": "scales it by",
    "cap": "caps it at",
    "floor": "keeps it at no less than",
}
#: Verbs whose value is not yet what the knob has after them.
_STEPWISE = ("raise", "scale")


class ContributionRow(msgspec.Struct, frozen=True, rename="camel"):
    """One policy's contribution to a value. `after` is the value once it was applied."""

    policy: str
    verb: str
    value: str
    because: Because
    after: str = ""


def describe_contribution(part: ContributionRow) -> str:
    """caps it at 600m: used by all but best effort 1000m, 1600m allowed"""
    because = part.because
    after = f", which makes {part.after}" if part.verb in _STEPWISE and part.after else ""
    what = f"{_VERBS.get(part.verb, part.verb)} {part.value}{after}"
    return f"{what}: {because.signal} {because.seen}, {because.limit}"


class IdlePolicy(msgspec.Struct, frozen=True, rename="camel"):
    """A policy that changes nothing now, and why. `course` is off, held, released, or acted if it
    has nothing to do."""

    policy: str
    reason: str
    since: str | None = None
    course: str = "held"


class KnobWriteAttempt(msgspec.Struct, frozen=True, rename="camel"):
    """How the last attempt to write the knob ended."""

    result: str
    value: str
    at: str
    detail: str = ""


class ForeignWrite(msgspec.Struct, frozen=True, rename="camel"):
    """When somebody else last wrote the knob, and how the agent reacted."""

    at: str
    text: str


class Explanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One knob; or, where `knob` is null, why nothing happened to the target.

    Values are spelled as Kubernetes does, 600m, or "unlimited"; null is "not known". `since` is
    when the value was last set, for an adopted one since when it is ours. `rules`, `commands` and
    `offers` are in the row about everything or the node.
    """

    api_version: str = API_VERSION
    kind: str = "Explanation"
    target: str
    level: str
    knob: str | None = None
    file: str | None = None
    now: str | None = None
    baseline: str | None = None
    granted: str | None = None
    since: str | None = None
    clipped_by: str | None = None
    contributions: tuple[ContributionRow, ...] = ()
    holds: tuple[IdlePolicy, ...] = ()
    path: str | None = None
    namespace: str | None = None
    pod: str | None = None
    contest: str | None = None
    yielded_until: str | None = None
    adopted: bool = False
    numbers: Mapping[str, Mapping[str, int]] = {}
    outcome: KnobWriteAttempt | None = None
    last_drift: ForeignWrite | None = None
    remarks: tuple[str, ...] = ()
    rules: tuple[RuleRow, ...] = ()
    commands: tuple[CommandRow, ...] = ()
    offers: tuple[OfferRow, ...] = ()


class KnobSubject(msgspec.Struct, frozen=True):
    """A knob that is granted, or still held although no policy asks for it."""

    ref: CgroupRef
    knob: str
    grant: Grant | None
    held: Held | None

    def key(self) -> tuple[int, str]:
        return self.ref.id, self.knob


def find_subjects(record: TickRecord) -> Iterator[KnobSubject]:
    held = {(each.ref.id, each.knob): each for each in record.snapshot.held}
    granted = {(grant.target.id, grant.knob) for grant in record.story.grants}
    for grant in record.story.grants:
        mine = held.get((grant.target.id, grant.knob))
        yield KnobSubject(grant.target, grant.knob, grant, mine)
    for key, each in held.items():
        if key not in granted:
            yield KnobSubject(each.ref, each.knob, None, each)


def explain_knob(view: AgentView, record: TickRecord, subject: KnobSubject) -> Explanation:
    ref, grant, held = subject.ref, subject.grant, subject.held
    attempt = _last_attempt(view.ticks, subject)
    now, baseline = _current_value(record, subject), _baseline_value(record, subject)
    changed = view.last_change(ref, subject.knob)
    since = changed if changed is not None else held.since if held else None
    until = next((y.until for y in record.story.yielded if _is_of(subject, y.target, y.knob)), None)
    pod = find_pod(ref, record.snapshot)
    told = _involved_policies(record, grant)
    return Explanation(
        target=target_name(ref, record.snapshot),
        level=ref.level.value,
        knob=subject.knob,
        file=_knob_file_name(view, subject.knob),
        now=None if isinstance(now, Gap) else format_value(now),
        baseline=None if isinstance(baseline, Gap) else format_value(baseline),
        granted=format_amount(subject.knob, grant.value) if grant else None,
        since=None if since is None else view.timestamp(since),
        clipped_by=grant.clipped_by if grant else None,
        contributions=tuple(_contribution_row(subject.knob, step) for step in grant.contributions)
        if grant
        else (),
        holds=tuple(
            describe_idle_policy(view, each)
            for each in told
            if each.course is not PolicyAction.ACTED
        ),
        path=ref.path,
        namespace=pod.namespace if pod else None,
        pod=pod.name if pod else None,
        contest=grant.contest if grant else None,
        yielded_until=None if until is None else view.timestamp(until),
        adopted=held is not None and changed is None and not _is_hidden(record, subject),
        numbers={each.policy: dict(each.numbers) for each in told if each.numbers},
        outcome=None if attempt is None else _write_attempt(view, *attempt),
        last_drift=_last_drift(view, subject),
        remarks=tuple(_knob_remarks(record, subject, now, attempt and attempt[1])),
    )


def _involved_policies(record: TickRecord, grant: Grant | None) -> list[PolicyReport]:
    """The policies that contributed to a value; all of them if it has no grant."""
    if grant is None:
        return list(record.story.told)
    speakers = {step.by for step in grant.contributions}
    return [each for each in record.story.told if each.policy in speakers]


def describe_idle_policy(view: AgentView, told: PolicyReport) -> IdlePolicy:
    """A policy that contributes to no grant, or holds."""
    since = None if told.since is None else view.timestamp(told.since)
    reason = told.reason
    if told.course is PolicyAction.ACTED and not told.has_nothing_to_do():
        reason = f"what it asks for was not granted, as no value was read there ({reason})"
    return IdlePolicy(told.policy, reason, since, told.course.value)


def _contribution_row(knob: str, step: Contribution) -> ContributionRow:
    value, after = format_amount(knob, step.value), format_amount(knob, step.after)
    return ContributionRow(step.by, step.verb.value, value, step.because, after)


def _knob_file_name(view: AgentView, name: str) -> str | None:
    knob = next((each for each in KNOBS if each.name == name), None)
    if knob is None or isinstance(view.version, Gap):
        return None
    file = knob.file(view.version)
    return None if isinstance(file, Gap) else file.name


def _current_value(record: TickRecord, subject: KnobSubject) -> KnobValue | Gap:
    """The value now: what this tick wrote, or else what it read."""
    for outcome in record.outcomes:
        change = outcome.change
        if outcome.result is Result.APPLIED and _is_of(subject, change.ref, change.knob.name):
            return change.new
    return _read_value(record, subject)


def _read_value(record: TickRecord, subject: KnobSubject) -> KnobValue | Gap:
    reading = record.snapshot.readings.get(subject.ref.id)
    found = NOT_ASKED if reading is None else reading.value(subject.knob)
    return Gap("it was not read") if found is NOT_ASKED else found


def _baseline_value(record: TickRecord, subject: KnobSubject) -> KnobValue | Gap:
    """The value before our first write, from the ledger, or else as it was read."""
    return subject.held.baseline if subject.held else _read_value(record, subject)


def _is_of(subject: KnobSubject, ref: CgroupRef, knob: str) -> bool:
    return (ref.id, knob) == subject.key()


def _last_attempt(
    ticks: Iterable[TickRecord], subject: KnobSubject
) -> tuple[TickRecord, Outcome] | None:
    for record in reversed(tuple(ticks)):
        for outcome in reversed(record.outcomes):
            if _is_of(subject, outcome.change.ref, outcome.change.knob.name):
                return record, outcome
    return None


def _write_attempt(view: AgentView, record: TickRecord, outcome: Outcome) -> KnobWriteAttempt:
    value, at = format_value(outcome.change.new), view.timestamp(record.snapshot.at)
    return KnobWriteAttempt(outcome.result.value, value, at, outcome.detail)


def _last_drift(view: AgentView, subject: KnobSubject) -> ForeignWrite | None:
    for record in reversed(view.ticks):
        for note in record.story.notes:
            if _is_of(subject, note.target, note.knob):
                return ForeignWrite(view.timestamp(record.snapshot.at), note.text)
    return None


def _knob_remarks(
    record: TickRecord, subject: KnobSubject, now: KnobValue | Gap, last: Outcome | None
) -> Iterator[str]:
    """Why the value differs from the grant."""
    if isinstance(now, Gap):
        yield f"its {subject.knob} could not be read: {now.reason}"
    if last is not None and last.result in _FAILED:
        detail = f": {last.detail}" if last.detail else ""
        yield f"the last attempt to write it was {last.result.value}{detail}"
    elif last is not None and last.result is Result.PLANNED:
        yield "a dry run: nothing is written"
    elif subject.grant is not None and _is_hidden(record, subject):
        yield f"{_HIDDEN}; it counts when idle ends"
    elif subject.grant is not None and _is_small_raise(record, subject, now):
        yield "a raise this small is not worth a write (agent.raiseDeadband)"
    if subject.grant is None:
        done = any(_is_of(subject, o.change.ref, o.change.knob.name) for o in record.outcomes)
        if done:
            yield "put back: no policy wants it any more"
        elif _is_hidden(record, subject):
            yield f"{_HIDDEN}; it is put back after idle"
        else:
            yield "kept until a policy has decided"


def _is_hidden(record: TickRecord, subject: KnobSubject) -> bool:
    reading = record.snapshot.readings.get(subject.ref.id)
    return reading is not None and reading.hides(subject.knob)


def _is_small_raise(record: TickRecord, subject: KnobSubject, now: KnobValue | Gap) -> bool:
    """Whether the grant is so little above the value that it was not written."""
    if subject.grant is None or not isinstance(now, Bandwidth):
        return False
    if any(_is_of(subject, each.target, each.knob) for each in record.story.yielded):
        return False
    milli, granted = now.milli(), subject.grant.value
    return isinstance(milli, int) and isinstance(granted, int) and milli < granted


def explain(view: AgentView, word: str) -> tuple[Explanation, ...] | Gap:
    """The target that `word` names, or everything if it is empty; a Gap lists what exists."""
    record = view.latest
    if record is None:
        remarks = (
            view.blind or NOT_YET,
            *(each.sentence() for each in view.problems),
            *view.link.remarks(),
        )
        return (_general_row(EVERYTHING, remarks, ()),)
    scopes = find_scopes(word, record.snapshot)
    if isinstance(scopes, Gap):
        return scopes
    subjects = tuple(find_subjects(record))
    return tuple(row for scope in scopes for row in _explain_scope(view, record, scope, subjects))


def _explain_scope(
    view: AgentView, record: TickRecord, scope: TargetScope, subjects: tuple[KnobSubject, ...]
) -> Iterator[Explanation]:
    """The target's own knobs, then those above that limit it, and a general row: first if there is
    no knob of its own."""
    own = [each for each in subjects if scope.contains(each.ref)]
    above = [each for each in subjects if scope.is_limited_by(each.ref)]
    beneath = {each.ref.owner for each in subjects if scope.has_inside(each.ref)}
    remarks = (*_general_remarks(view, record, scope), *_pods_hint(scope, beneath))
    silent = () if view.paused else tuple(_idle_policies(view, record, scope))
    asked = {each.name for each in view.policies if scope.pod and each.concerns(scope.pod)}
    missed = tuple(each for each in silent if each.policy in asked)
    of_node = scope.level in (None, Level.NODE)
    rules, commands = (rule_rows(view), command_rows(view)) if of_node else ((), ())
    offers = offer_rows(view) if of_node else ()
    if not own:
        nothing = () if scope is EVERYTHING or view.paused or offers else (_explain_nothing(scope),)
        general = _general_row(scope, (*remarks, *nothing), silent)
        yield msgspec.structs.replace(general, rules=rules, commands=commands, offers=offers)
    for subject in (*own, *above):
        yield explain_knob(view, record, subject)
    said = silent if scope is EVERYTHING or remarks else missed
    if own and (remarks or said or rules or commands or offers):
        general = _general_row(scope, remarks, said)
        yield msgspec.structs.replace(general, rules=rules, commands=commands, offers=offers)


def _explain_nothing(scope: TargetScope) -> str:
    if scope.pod is not None and isinstance(scope.pod.ref, Gap):
        return f"it has no group: {scope.pod.ref.reason}"
    return f"no policy asks for anything of {'the node itself' if scope.name == NODE else 'it'}"


def _pods_hint(scope: TargetScope, pods: set[str]) -> Iterator[str]:
    """How to see a tier's pods: hundreds of them do not answer a question about the tier."""
    if scope.tier is not None and pods:
        number = f"{len(pods)} of its pods" if len(pods) > 1 else "one of its pods"
        yield f"values of {number} are ours too: slackwater explain {scope.name} --pods"


def _general_row(
    scope: TargetScope, remarks: tuple[str, ...], silent: tuple[IdlePolicy, ...]
) -> Explanation:
    pod, level = scope.pod, scope.level.value if scope.level else "node"
    path = pod.ref.path if pod and isinstance(pod.ref, CgroupRef) else None
    return Explanation(
        target=scope.name,
        level=level,
        holds=silent,
        path=path,
        namespace=pod.namespace if pod else None,
        pod=pod.name if pod else None,
        remarks=remarks,
    )


def _general_remarks(view: AgentView, record: TickRecord, scope: TargetScope) -> Iterator[str]:
    if view.blind:
        last = view.timestamp(record.snapshot.at)
        yield f"the agent sees nothing now: {view.blind}; all this is of its last look at {last}"
    if view.paused:
        yield f"the agent is paused: {view.paused}"
    for problem in view.problems:
        yield f"the configuration has a problem: {problem.sentence()}"
    yield from view.link.remarks()
    if scope is EVERYTHING and (starts := view.container_starts()):
        yield f"new containers get their quotas by {starts}"
    remarks = [(each.policy, remark) for each in record.story.told for remark in each.remarks]
    for policy, remark in dict.fromkeys((*remarks, *_node_remarks(view, record))):
        if scope.concerns(remark.about, record.snapshot):
            yield f"{remark.about}: {policy}: {remark.text}"
    if scope.pod is not None:
        yield from _pod_remarks(view, record, scope.pod)


def _node_remarks(view: AgentView, record: TickRecord) -> Iterator[tuple[str, Remark]]:
    for policy in view.policies:
        settings = record.inputs.policies.get(policy.name)
        if settings is not None:
            for remark in policy.explain_node(settings, record.snapshot):
                yield policy.name, remark


def _pod_remarks(view: AgentView, record: TickRecord, pod: Workload) -> Iterator[str]:
    for policy in view.policies:
        settings = record.inputs.policies.get(policy.name)
        if settings is not None:
            for text in policy.explain_pod(settings, record.snapshot, pod):
                yield f"{policy.name}: {text}"


def _idle_policies(view: AgentView, record: TickRecord, scope: TargetScope) -> Iterator[IdlePolicy]:
    """Policies that change nothing now; what they asked for before may still be in place. A policy
    whose remark explains it is left out."""
    for policy, reason in view.off.items():
        yield IdlePolicy(policy, reason, course="off")
    speaking = {step.by for grant in record.story.grants for step in grant.contributions}
    for told in record.story.told:
        idle = told.has_nothing_to_do()
        if idle and any(scope.concerns(each.about, record.snapshot) for each in told.remarks):
            continue
        if told.course is PolicyAction.ACTED and (told.policy in speaking or told.offers):
            continue
        yield describe_idle_policy(view, told)
