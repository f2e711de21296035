"""Which features this machine supports: the knobs that each feature needs, as data."""

from collections.abc import Iterable

import msgspec

from slackwater.doctor.doctor_report import FeatureRow, KnobRow
from slackwater.model.cgroup import Level
from slackwater.model.knob import KNOBS
from slackwater.policies import core_pinning
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy

PSI = "psi"
SCRATCH = "scratch"
_VENDOR = frozenset(knob.name for knob in KNOBS if knob.vendor)
#: From the bottom of the tree upwards.
_UPWARD = tuple(reversed(Level))


class FeatureRequirement(msgspec.Struct, frozen=True):
    """It works if all knobs of one alternative do, at its level of the kubelet's tree. `built` is
    whether this version of Slackwater has it; the others are listed so that users can plan."""

    name: str
    alternatives: tuple[tuple[str, ...], ...]
    does: str
    level: Level = Level.CONTAINER
    built: bool = True


#: What is not a policy.
_OTHERS: tuple[FeatureRequirement, ...] = (
    FeatureRequirement("interference", ((PSI,),), "wakes at once when a protected pod has to wait"),
)


def features_of(policies: Iterable[Policy]) -> tuple[FeatureRequirement, ...]:
    return (
        *(
            FeatureRequirement(each.name, each.knobs, each.description, each.level)
            for each in policies
        ),
        *_OTHERS,
    )


class _State(msgspec.Struct, frozen=True):
    works: bool | None
    why: str = "run with --probe"


def judge_features(
    rows: tuple[KnobRow, ...], psi: bool | None, policies: Iterable[Policy] = POLICIES
) -> tuple[FeatureRow, ...]:
    return tuple(
        msgspec.structs.replace(_judge_feature(feature, rows, psi), built=feature.built)
        for feature in features_of(policies)
    )


def refuse_pinning(
    rows: tuple[FeatureRow, ...], manager_policy: str | None
) -> tuple[FeatureRow, ...]:
    """The same, but for containers' CPUs where the kubelet's CPU manager gives them out itself."""
    why = core_pinning.refuse_beside(manager_policy)
    return tuple(
        msgspec.structs.replace(row, possible=False, because=why)
        if why and row.feature == core_pinning.NAME
        else row
        for row in rows
    )


def _judge_feature(
    feature: FeatureRequirement, rows: tuple[KnobRow, ...], psi: bool | None
) -> FeatureRow:
    def state(knob: str) -> _State:
        return (
            _State(psi, "PSI is unknown") if knob == PSI else _judge_knob(rows, knob, feature.level)
        )

    if not feature.alternatives:
        return FeatureRow(feature.name, True, f"it needs no knob: {feature.does}")
    untried: tuple[str, ...] = ()
    for knobs in feature.alternatives:
        works = [state(knob).works for knob in knobs]
        if all(works):
            return FeatureRow(
                feature.name, True, f"{_join_names(knobs)} {_verb(knobs)}: {feature.does}"
            )
        if False not in works and (not untried or set(untried) <= _VENDOR):
            untried = knobs
    if untried:
        why = next(state(knob).why for knob in untried if state(knob).works is None)
        text = f"{_join_names(untried)} {_was(untried)} not tried: {why}"
        return FeatureRow(feature.name, None, text)
    lacking = [knob for knob in feature.alternatives[-1] if state(knob).works is False]
    return FeatureRow(feature.name, False, f"{_join_names(lacking)} {_does(lacking)} not work here")


def _judge_knob(rows: tuple[KnobRow, ...], knob: str, level: Level) -> _State:
    """What the kubelet's tree lacks does not work, whatever a scratch group can do; what it has
    works if the scratch group says so."""
    mine = {row.level: row for row in rows if row.knob == knob}
    upward = _UPWARD[_UPWARD.index(level) :]
    tree = next((mine[above.value] for above in upward if above.value in mine), None)
    tried = mine.get(SCRATCH)
    if tree is not None and tree.works is False:
        return _State(False, tree.note)
    if tried is not None:
        unsure = tree is not None and tried.works is False
        return _State(None if unsure else tried.works, tried.note)
    return _State(None) if mine and not all(r.works is False for r in mine.values()) else _ABSENT


_ABSENT = _State(False)


def _join_names(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _verb(names: tuple[str, ...]) -> str:
    return "work" if len(names) > 1 else "works"


def _was(names: tuple[str, ...]) -> str:
    return "were" if len(names) > 1 else "was"


def _does(names: list[str]) -> str:
    return "do" if len(names) > 1 else "does"
