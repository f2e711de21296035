"""One knob explained: what stands there, what it would be without us, and who wanted what."""

from collections.abc import Iterable, Iterator

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Contribution, Grant
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.knob import KNOBS, KnobValue
from slackwater.model.plan import Outcome, Result
from slackwater.model.snapshot import Held
from slackwater.model.story import Course, Told
from slackwater.model.units import Bandwidth
from slackwater.record.answer import Attempt, Explanation, Intrusion, Part, Reason, Silence
from slackwater.record.journal import TickRecord, amount, spelled
from slackwater.record.targets import pod_of, target_name
from slackwater.record.view import View

#: The tick's word for a policy that acted and asked for nothing.
NOTHING_TO_DO = "nothing to do"
_FAILED = frozenset({Result.REFUSED, Result.UNSUPPORTED, Result.VANISHED})


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


def explain_knob(view: View, record: TickRecord, subject: Subject) -> Explanation:
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
        now=None if isinstance(now, Gap) else spelled(now),
        baseline=None if isinstance(baseline, Gap) else spelled(baseline),
        granted=amount(subject.knob, grant.value) if grant else None,
        since=None if since is None else view.stamp(since),
        clipped_by=grant.clipped_by if grant else None,
        contributions=tuple(_part(subject.knob, step) for step in grant.contributions)
        if grant
        else (),
        holds=tuple(silence(view, each) for each in told if each.course is not Course.ACTED),
        path=ref.path,
        namespace=pod.namespace if pod else None,
        pod=pod.name if pod else None,
        contest=grant.contest if grant else None,
        yielded_until=None if until is None else view.stamp(until),
        adopted=held is not None and changed is None,
        numbers={each.policy: dict(each.numbers) for each in told if each.numbers},
        outcome=None if attempt is None else _attempt(view, *attempt),
        last_drift=_last_drift(view, subject),
        remarks=tuple(_knob_remarks(record, subject, now, attempt and attempt[1])),
    )


def _concerned(record: TickRecord, grant: Grant | None) -> list[Told]:
    """The policies with a part in a value; of a value without a grant any may have one soon."""
    if grant is None:
        return list(record.story.told)
    speakers = {step.by for step in grant.contributions}
    return [each for each in record.story.told if each.policy in speakers]


def silence(view: View, told: Told) -> Silence:
    """Of a policy without a part in any grant, or one that holds."""
    since = None if told.since is None else view.stamp(told.since)
    reason = told.reason
    if told.course is Course.ACTED and reason != NOTHING_TO_DO:
        reason = f"what it asks for was not granted, as no value was read there ({reason})"
    return Silence(told.policy, reason, since, told.course.value)


def _part(knob: str, step: Contribution) -> Part:
    because = Reason(step.because.signal, step.because.seen, step.because.limit)
    value, after = amount(knob, step.value), amount(knob, step.after)
    return Part(step.by, step.verb.value, value, because, after)


def _file(view: View, name: str) -> str | None:
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


def _attempt(view: View, record: TickRecord, outcome: Outcome) -> Attempt:
    value, at = spelled(outcome.change.new), view.stamp(record.snapshot.at)
    return Attempt(outcome.result.value, value, at, outcome.detail)


def _last_drift(view: View, subject: Subject) -> Intrusion | None:
    for record in reversed(view.ticks):
        for note in record.story.notes:
            if _is_of(subject, note.target, note.knob):
                return Intrusion(view.stamp(record.snapshot.at), note.text)
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
