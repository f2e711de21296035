"""Why each value is what it is, or why nothing happened: what `slackwater explain` asks for.

One row for each knob that is granted or held, and one for a target without any. Built only from
recorded ticks, so a recording is explained exactly like a running agent. The structs are the stable
form behind -o json and -o yaml.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Contribution, Grant
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.knob import KNOBS, KnobValue
from slackwater.model.plan import Outcome, Result
from slackwater.model.snapshot import Held
from slackwater.model.tick_report import PolicyAction, PolicyReport
from slackwater.model.units import Bandwidth
from slackwater.record.agent_view import API_VERSION, AgentView
from slackwater.record.journal import TickRecord, format_amount, format_value
from slackwater.record.targets import EVERYTHING, NODE, Scope, pod_of, scopes_of, target_name

_FAILED = frozenset({Result.REFUSED, Result.UNSUPPORTED, Result.VANISHED})
NOT_YET = "the agent has not looked yet"


class Reason(msgspec.Struct, frozen=True, rename="camel"):
    """What a policy looked at, what it saw, and what it held that against."""

    signal: str
    seen: str
    limit: str


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """One policy's part in a value. `after` is the value once this part was applied."""

    policy: str
    verb: str
    value: str
    because: Reason
    after: str = ""


class Silence(msgspec.Struct, frozen=True, rename="camel"):
    """A policy that changes nothing now, and why. `course` is off, held, released or acted: it
    has nothing to do."""

    policy: str
    reason: str
    since: str | None = None
    course: str = "held"


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """How the last attempt to write the knob ended."""

    result: str
    value: str
    at: str
    detail: str = ""


class Intrusion(msgspec.Struct, frozen=True, rename="camel"):
    """When somebody else last wrote the knob, and what we made of it."""

    at: str
    text: str


class Explanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One knob; or, where `knob` is null, why nothing happened to the target.

    Values are spelled as Kubernetes does, 600m, or "unlimited"; null is "not known". `since` is
    when the value was last set, for an adopted one since when it is ours.
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
    contributions: tuple[Part, ...] = ()
    holds: tuple[Silence, ...] = ()
    path: str | None = None
    namespace: str | None = None
    pod: str | None = None
    contest: str | None = None
    yielded_until: str | None = None
    adopted: bool = False
    numbers: Mapping[str, Mapping[str, int]] = {}
    outcome: Attempt | None = None
    last_drift: Intrusion | None = None
    remarks: tuple[str, ...] = ()


class Subject(msgspec.Struct, frozen=True):
    """A knob that is granted, or ours although nobody asks for it."""

    ref: CgroupRef
    knob: str
    grant: Grant | None
    held: Held | None

    def key(self) -> tuple[int, str]:
        return self.ref.id, self.knob


def subjects_of(record: TickRecord) -> Iterator[Subject]:
    held = {(each.ref.id, each.knob): each for each in record.snapshot.held}
    granted = {(grant.target.id, grant.knob) for grant in record.story.grants}
    for grant in record.story.grants:
        mine = held.get((grant.target.id, grant.knob))
        yield Subject(grant.target, grant.knob, grant, mine)
    for key, each in held.items():
        if key not in granted:
            yield Subject(each.ref, each.knob, None, each)


def explain_knob(view: AgentView, record: TickRecord, subject: Subject) -> Explanation:
    ref, grant, held = subject.ref, subject.grant, subject.held
    attempt = _last_attempt(view.ticks, subject)
    now, baseline = _now(record, subject), _baseline(record, subject)
    changed = view.changed(ref, subject.knob)
    since = changed if changed is not None else held.since if held else None
    until = next((y.until for y in record.story.yielded if _is_of(subject, y.target, y.knob)), None)
    pod = pod_of(ref, record.snapshot)
    told = _concerned(record, grant)
    return Explanation(
        target=target_name(ref, record.snapshot),
        level=ref.level.value,
        knob=subject.knob,
        file=_file(view, subject.knob),
        now=None if isinstance(now, Gap) else format_value(now),
        baseline=None if isinstance(baseline, Gap) else format_value(baseline),
        granted=format_amount(subject.knob, grant.value) if grant else None,
        since=None if since is None else view.timestamp(since),
        clipped_by=grant.clipped_by if grant else None,
        contributions=tuple(_part(subject.knob, step) for step in grant.contributions)
        if grant
        else (),
        holds=tuple(silence(view, each) for each in told if each.course is not PolicyAction.ACTED),
        path=ref.path,
        namespace=pod.namespace if pod else None,
        pod=pod.name if pod else None,
        contest=grant.contest if grant else None,
        yielded_until=None if until is None else view.timestamp(until),
        adopted=held is not None and changed is None,
        numbers={each.policy: dict(each.numbers) for each in told if each.numbers},
        outcome=None if attempt is None else _attempt(view, *attempt),
        last_drift=_last_drift(view, subject),
        remarks=tuple(_knob_remarks(record, subject, now, attempt and attempt[1])),
    )


def _concerned(record: TickRecord, grant: Grant | None) -> list[PolicyReport]:
    """The policies with a part in a value; of a value without a grant any may have one soon."""
    if grant is None:
        return list(record.story.told)
    speakers = {step.by for step in grant.contributions}
    return [each for each in record.story.told if each.policy in speakers]


def silence(view: AgentView, told: PolicyReport) -> Silence:
    """Of a policy without a part in any grant, or one that holds."""
    since = None if told.since is None else view.timestamp(told.since)
    reason = told.reason
    if told.course is PolicyAction.ACTED and not told.has_nothing_to_do():
        reason = f"what it asks for was not granted, as no value was read there ({reason})"
    return Silence(told.policy, reason, since, told.course.value)


def _part(knob: str, step: Contribution) -> Part:
    because = Reason(step.because.signal, step.because.seen, step.because.limit)
    value, after = format_amount(knob, step.value), format_amount(knob, step.after)
    return Part(step.by, step.verb.value, value, because, after)


def _file(view: AgentView, name: str) -> str | None:
    knob = next((each for each in KNOBS if each.name == name), None)
    if knob is None or isinstance(view.version, Gap):
        return None
    file = knob.file(view.version)
    return None if isinstance(file, Gap) else file.name


def _now(record: TickRecord, subject: Subject) -> KnobValue | Gap:
    """What stands there: what this tick wrote, else what it read."""
    for outcome in record.outcomes:
        change = outcome.change
        if outcome.result is Result.APPLIED and _is_of(subject, change.ref, change.knob.name):
            return change.new
    return _reading(record, subject)


def _reading(record: TickRecord, subject: Subject) -> KnobValue | Gap:
    reading = record.snapshot.readings.get(subject.ref.id)
    found = NOT_ASKED if reading is None else reading.value(subject.knob)
    return Gap("it was not read") if found is NOT_ASKED else found


def _baseline(record: TickRecord, subject: Subject) -> KnobValue | Gap:
    """The value without us: as noted before our first write, else as it was read."""
    return subject.held.baseline if subject.held else _reading(record, subject)


def _is_of(subject: Subject, ref: CgroupRef, knob: str) -> bool:
    return (ref.id, knob) == subject.key()


def _last_attempt(
    ticks: Iterable[TickRecord], subject: Subject
) -> tuple[TickRecord, Outcome] | None:
    for record in reversed(tuple(ticks)):
        for outcome in reversed(record.outcomes):
            if _is_of(subject, outcome.change.ref, outcome.change.knob.name):
                return record, outcome
    return None


def _attempt(view: AgentView, record: TickRecord, outcome: Outcome) -> Attempt:
    value, at = format_value(outcome.change.new), view.timestamp(record.snapshot.at)
    return Attempt(outcome.result.value, value, at, outcome.detail)


def _last_drift(view: AgentView, subject: Subject) -> Intrusion | None:
    for record in reversed(view.ticks):
        for note in record.story.notes:
            if _is_of(subject, note.target, note.knob):
                return Intrusion(view.timestamp(record.snapshot.at), note.text)
    return None


def _knob_remarks(
    record: TickRecord, subject: Subject, now: KnobValue | Gap, last: Outcome | None
) -> Iterator[str]:
    """Why what stands there is not what is granted."""
    if isinstance(now, Gap):
        yield f"its {subject.knob} could not be read: {now.reason}"
    if last is not None and last.result in _FAILED:
        detail = f": {last.detail}" if last.detail else ""
        yield f"the last attempt to write it was {last.result.value}{detail}"
    elif last is not None and last.result is Result.PLANNED:
        yield "a dry run: nothing is written"
    elif subject.grant is not None and _is_hidden(record, subject):
        yield "cpu.idle hides it: an idle group has the lowest weight; it counts when idle ends"
    elif subject.grant is not None and _is_not_worth_it(record, subject, now):
        yield "a raise this small is not worth a write (agent.raiseDeadband)"
    if subject.grant is None:
        done = any(_is_of(subject, o.change.ref, o.change.knob.name) for o in record.outcomes)
        yield "put back: nobody wants it any more" if done else "kept until a policy has decided"


def _is_hidden(record: TickRecord, subject: Subject) -> bool:
    reading = record.snapshot.readings.get(subject.ref.id)
    return reading is not None and reading.hides(subject.knob)


def _is_not_worth_it(record: TickRecord, subject: Subject, now: KnobValue | Gap) -> bool:
    """Whether the grant is a little above what stands there, and was left at that."""
    if subject.grant is None or not isinstance(now, Bandwidth):
        return False
    if any(_is_of(subject, each.target, each.knob) for each in record.story.yielded):
        return False
    milli, granted = now.milli(), subject.grant.value
    return isinstance(milli, int) and isinstance(granted, int) and milli < granted


def explain(view: AgentView, word: str) -> tuple[Explanation, ...] | Gap:
    """Of the target that `word` names, the empty word everything; a Gap names what there is."""
    record = view.latest
    if record is None:
        remarks = (
            view.blind or NOT_YET,
            *(each.sentence() for each in view.problems),
            *view.link.remarks(),
        )
        return (_general_row(EVERYTHING, remarks, ()),)
    scopes = scopes_of(word, record.snapshot)
    if isinstance(scopes, Gap):
        return scopes
    subjects = tuple(subjects_of(record))
    return tuple(row for scope in scopes for row in _rows(view, record, scope, subjects))


def _rows(
    view: AgentView, record: TickRecord, scope: Scope, subjects: tuple[Subject, ...]
) -> Iterator[Explanation]:
    """What was asked about, then what binds it from above, and what goes for all: first where it
    is all that there is to say."""
    own = [each for each in subjects if scope.holds(each.ref)]
    above = [each for each in subjects if scope.feels(each.ref)]
    beneath = {each.ref.owner for each in subjects if scope.is_beneath(each.ref)}
    remarks = (*_general_remarks(view, record, scope), *_hint(scope, beneath))
    silent = () if view.paused else tuple(_silences(view, record, scope))
    asked = {each.name for each in view.policies if scope.pod and each.concerns(scope.pod)}
    missed = tuple(each for each in silent if each.policy in asked)
    if not own:
        nothing = () if scope is EVERYTHING or view.paused else (_nothing_of(scope),)
        yield _general_row(scope, (*remarks, *nothing), silent)
    for subject in (*own, *above):
        yield explain_knob(view, record, subject)
    said = silent if scope is EVERYTHING or remarks else missed
    if own and (remarks or said):
        yield _general_row(scope, remarks, said)


def _nothing_of(scope: Scope) -> str:
    if scope.pod is not None and isinstance(scope.pod.ref, Gap):
        return f"it has no group: {scope.pod.ref.reason}"
    return f"no policy asks for anything of {'the node itself' if scope.name == NODE else 'it'}"


def _hint(scope: Scope, pods: set[str]) -> Iterator[str]:
    """Where the rest is, of a tier: hundreds of pods are no answer to a question about it."""
    if scope.tier is not None and pods:
        number = f"{len(pods)} of its pods" if len(pods) > 1 else "one of its pods"
        yield f"values of {number} are ours too: slackwater explain {scope.name} --pods"


def _general_row(
    scope: Scope, remarks: tuple[str, ...], silent: tuple[Silence, ...]
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


def _general_remarks(view: AgentView, record: TickRecord, scope: Scope) -> Iterator[str]:
    if view.blind:
        last = view.timestamp(record.snapshot.at)
        yield f"the agent sees nothing now: {view.blind}; all this is of its last look at {last}"
    if view.paused:
        yield f"the agent is paused: {view.paused}"
    for problem in view.problems:
        yield f"the configuration has a problem: {problem.sentence()}"
    yield from view.link.remarks()
    for told in record.story.told:
        for remark in told.remarks:
            if scope.concerns(remark.about, record.snapshot):
                yield f"{remark.about}: {told.policy}: {remark.text}"


def _silences(view: AgentView, record: TickRecord, scope: Scope) -> Iterator[Silence]:
    """Policies that want nothing changed now; what they asked for before may still stand. One
    that says why by a remark is not said to have nothing to do."""
    for policy, reason in view.off.items():
        yield Silence(policy, reason, course="off")
    speaking = {step.by for grant in record.story.grants for step in grant.contributions}
    for told in record.story.told:
        idle = told.has_nothing_to_do()
        if idle and any(scope.concerns(each.about, record.snapshot) for each in told.remarks):
            continue
        if told.course is not PolicyAction.ACTED or told.policy not in speaking:
            yield silence(view, told)
