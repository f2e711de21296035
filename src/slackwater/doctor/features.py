"""Which features this machine can carry: each feature's needs as data, judged by the knobs."""

from collections.abc import Mapping

import msgspec

from slackwater.doctor.report import FeatureRow


class Feature(msgspec.Struct, frozen=True):
    """A feature works if, of every alternative set in order, one has all its knobs."""

    name: str
    alternatives: tuple[tuple[str, ...], ...]
    does: str


FEATURES: tuple[Feature, ...] = (
    Feature("best_effort_share", (("quota",),), "bounds the best-effort tier by what is left"),
    Feature(
        "batch_resources",
        (("weight", "quota", "memory-max"),),
        "weight, quota and memory of pods with batch resources",
    ),
    Feature("quota_burst", (("burst",),), "lets a container catch up after a quiet period"),
    Feature(
        "qos_level",
        (("cpu-qos-level",), ("idle",), ("weight",)),
        "best-effort work yields the CPU at once",
    ),
    Feature(
        "memory_qos",
        (("memory-qos-level",), ("memory-high", "memory-low", "memory-min")),
        "protects and bounds memory by class",
    ),
    Feature("elastic_limit", (("quota", "weight"),), "bounds pods that use oversold CPU"),
    Feature("normalization", (("quota",),), "gives a CPU unit the same worth on every node"),
    Feature("core_pinning", (("cpus",),), "binds containers to CPUs, shared or exclusive"),
    Feature("watermark_relief", (("quota",),), "caps, cordons and evicts above a watermark"),
    Feature("interference", (("psi",),), "wakes at once when a protected pod has to wait"),
)


def judge(works: Mapping[str, bool | None]) -> tuple[FeatureRow, ...]:
    """`works` by knob name, and by "psi": True, False, or None where it was not tried."""
    return tuple(_judge(feature, works) for feature in FEATURES)


def _judge(feature: Feature, works: Mapping[str, bool | None]) -> FeatureRow:
    untried: tuple[str, ...] = ()
    for knobs in feature.alternatives:
        states = [works.get(knob, False) for knob in knobs]
        if all(states):
            return FeatureRow(feature.name, True, f"{_and(knobs)} {_verb(knobs)}: {feature.does}")
        if not untried and False not in states:
            untried = knobs
    if untried:
        return FeatureRow(
            feature.name, None, f"{_and(untried)} {_was(untried)} not tried: run with --probe"
        )
    lacking = [k for k in feature.alternatives[-1] if works.get(k, False) is False]
    return FeatureRow(feature.name, False, f"{_and(lacking)} {_does(lacking)} not work here")


def _and(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _verb(names: tuple[str, ...]) -> str:
    return "work" if len(names) > 1 else "works"


def _was(names: tuple[str, ...]) -> str:
    return "were" if len(names) > 1 else "was"


def _does(names: list[str]) -> str:
    return "do" if len(names) > 1 else "does"
