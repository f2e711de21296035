"""Why each value is what it is, or why nothing happened: what `slackwater explain` asks for.

Owns which rows answer a question, and the row for a target of which nothing is set. Looks at
nothing but what was recorded, so that a recording is explained alike. One knob's row is
knob_explanation's.
"""

from collections.abc import Iterator

from slackwater.model.cgroup import CgroupRef
from slackwater.model.gap import Gap
from slackwater.model.story import Course
from slackwater.record.answer import Explanation, Silence
from slackwater.record.asking import asked_by
from slackwater.record.journal import TickRecord
from slackwater.record.knob_explanation import (
    NOTHING_TO_DO,
    Subject,
    explain_knob,
    silence,
    subjects_of,
)
from slackwater.record.targets import EVERYTHING, NODE, Scope, scopes_of
from slackwater.record.view import View

NOT_YET = "the agent has not looked yet"


def explain(view: View, word: str) -> tuple[Explanation, ...] | Gap:
    """Of the target that `word` names, the empty word everything; a Gap names what there is."""
    record = view.latest
    if record is None:
        remarks = (view.blind or NOT_YET, *view.problems, *view.link.remarks())
        return (_general_row(EVERYTHING, remarks, ()),)
    scopes = scopes_of(word, record.snapshot)
    if isinstance(scopes, Gap):
        return scopes
    subjects = tuple(subjects_of(record))
    return tuple(row for scope in scopes for row in _rows(view, record, scope, subjects))


def _rows(
    view: View, record: TickRecord, scope: Scope, subjects: tuple[Subject, ...]
) -> Iterator[Explanation]:
    """What was asked about, then what binds it from above, and what goes for all: first where it
    is all that there is to say."""
    own = [each for each in subjects if scope.holds(each.ref)]
    above = [each for each in subjects if scope.feels(each.ref)]
    beneath = {each.ref.owner for each in subjects if scope.is_beneath(each.ref)}
    remarks = (*_general_remarks(view, record, scope), *_hint(scope, beneath))
    silent = () if view.paused else tuple(_silences(view, record, scope))
    asked = asked_by(scope.pod) if scope.pod else frozenset()
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


def _general_remarks(view: View, record: TickRecord, scope: Scope) -> Iterator[str]:
    if view.blind:
        last = view.stamp(record.snapshot.at)
        yield f"the agent sees nothing now: {view.blind}; all this is of its last look at {last}"
    if view.paused:
        yield f"the agent is paused: {view.paused}"
    for problem in view.problems:
        yield f"the configuration has a problem: {problem}"
    yield from view.link.remarks()
    for told in record.story.told:
        for remark in told.remarks:
            if scope.concerns(remark.about, record.snapshot):
                yield f"{remark.about}: {told.policy}: {remark.text}"


def _silences(view: View, record: TickRecord, scope: Scope) -> Iterator[Silence]:
    """Policies that want nothing changed now; what they asked for before may still stand. One
    that says why by a remark is not said to have nothing to do."""
    for policy, reason in view.off.items():
        yield Silence(policy, reason, course="off")
    speaking = {step.by for grant in record.story.grants for step in grant.contributions}
    for told in record.story.told:
        idle = told.course is Course.ACTED and told.reason == NOTHING_TO_DO
        if idle and any(scope.concerns(each.about, record.snapshot) for each in told.remarks):
            continue
        if told.course is not Course.ACTED or told.policy not in speaking:
            yield silence(view, told)
