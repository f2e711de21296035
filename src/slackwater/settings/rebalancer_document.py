"""The rebalancer's settings out of a file, of variables and of flags, as one RunSettings.

Who overrules whom: flag, variable, the file's entry of the workload, the file's defaults, our
default.
"""

import types
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from slackwater.contract.decoding import with_stated
from slackwater.contract.document import Field
from slackwater.contract.schema import SettingsStruct
from slackwater.model.problem import Problem
from slackwater.settings.prometheus import both_or_neither, conflict, prometheus_conflicts
from slackwater.settings.rebalancer import (
    IDENTITY,
    KafkaAccess,
    KafkaProtocol,
    RunSettings,
    WorkloadSettings,
)
from slackwater.settings.setting import Names, ObjectName, Setting, check_file, nest, settings_of

KIND = "RebalancerSettings"
#: Our own variables; the original's names are in contract.rebalancer_environment.
_NAMES = Names("SLACKWATER_REBALANCE_")
WORKLOAD_SETTINGS: tuple[Setting, ...] = settings_of(WorkloadSettings, _NAMES)
RUN_SETTINGS: tuple[Setting, ...] = settings_of(RunSettings, _NAMES)
SETTINGS: tuple[Setting, ...] = (*WORKLOAD_SETTINGS, *RUN_SETTINGS)
BY_KEY: Mapping[str, Setting] = {each.key: each for each in SETTINGS}
_IDENTITY = tuple(each for each in WORKLOAD_SETTINGS if IDENTITY in each.annotation.extra)
_OTHERS = tuple(each for each in WORKLOAD_SETTINGS if IDENTITY not in each.annotation.extra)
_NOWHERE = Field("", "", None)

#: Plain values that were stated, checked, in the shape of their Struct.
Stated = Mapping[str, Any]


def _section(name: str, *fields: tuple[str, Any, Any]) -> type[msgspec.Struct]:
    return msgspec.defstruct(name, fields, bases=(SettingsStruct,), frozen=True)


def _optional(kind: type[msgspec.Struct], without: str) -> list[tuple[str, Any, Any]]:
    """A Struct's fields, none of them required."""
    infos = msgspec.structs.fields(kind)
    return [(each.encode_name, each.type, None) for each in infos if each.name != without]


_OF_A_WORKLOAD = _optional(WorkloadSettings, without="name")
_LISTED = _section("ListedWorkload", ("name", ObjectName, msgspec.NODEFAULT), *_OF_A_WORKLOAD)
#: What stands under `spec`.
SPEC = _section(
    "RebalancerSettingsSpec",
    *_optional(RunSettings, without="workloads"),
    ("defaults", _section("WorkloadDefaults", *_OF_A_WORKLOAD), None),
    ("workloads", types.GenericAlias(tuple, (_LISTED, ...)), ()),
)


class StatedWorkload(msgspec.Struct, frozen=True):
    """A workload and what was stated of it alone."""

    name: str
    stated: Stated = {}


class FileSettings(msgspec.Struct, frozen=True):
    """What a file states."""

    run: Stated = {}
    defaults: Stated = {}
    workloads: tuple[StatedWorkload, ...] = ()


def read_file(document: object, source: str, problems: list[Problem]) -> FileSettings:
    """A whole file; `source` is its name."""
    spec = check_file(document, source, KIND, SPEC, problems)
    defaults, listed = spec.pop("defaults", {}), spec.pop("workloads", [])
    workloads = (dict(each) for each in listed if isinstance(each, dict))
    return FileSettings(
        spec, defaults, tuple(StatedWorkload(each.pop("name", ""), each) for each in workloads)
    )


def run_settings(file: Stated, texts: Mapping[str, Any]) -> RunSettings:
    """Without workloads. `texts`: by key, of variables and flags; they overrule the file."""
    return with_stated(RunSettings(), _NOWHERE, file, nest(RUN_SETTINGS, texts))


def workload_settings(
    workload: StatedWorkload, defaults: Stated, texts: Mapping[str, Any]
) -> WorkloadSettings:
    """`texts`: by key, of variables and flags; they overrule the file but for who is meant."""
    base = WorkloadSettings("default", workload.name)
    identity, others = nest(_IDENTITY, texts), nest(_OTHERS, texts)
    return with_stated(base, _NOWHERE, defaults, identity, workload.stated, others)


_SASL = (KafkaProtocol.SASL_PLAINTEXT, KafkaProtocol.SASL_SSL)


def conflicts(settings: RunSettings) -> Iterator[Problem]:
    """Settings that are fine alone and make no sense together."""
    yield from prometheus_conflicts(settings.prometheus)
    seen: dict[tuple[str, str, str], int] = {}
    for place, each in enumerate(settings.workloads):
        key = each.namespace, each.kind, each.name
        if key in seen:
            other = f"another workload than the {_ordinal(seen[key])}"
            yield conflict(f"the {_ordinal(place)} workload", workload_name(each), other)
        seen.setdefault(key, place)
    for access in dict.fromkeys(each.kafka.access for each in settings.workloads):
        yield from _of_kafka(access)


def unreachable_target(settings: WorkloadSettings) -> str | None:
    """A warning where the minimum improvement can never be reached: with one hot pod and K cold
    ones that use nothing it is K / (K + 1)."""
    moves = settings.moves
    most = 100 * moves.top_k / (moves.top_k + 1)
    if moves.minimum_improvement < most:
        return None
    return (
        f"{workload_name(settings)} will never be rotated: minimumImprovement is "
        f"{moves.minimum_improvement:g} %, but with topK {moves.top_k} no improvement is above "
        f"{most:.1f} %"
    )


def workload_name(settings: WorkloadSettings) -> str:
    return f"{settings.namespace}/{settings.name}"


def _ordinal(place: int) -> str:
    """first, second, third, 4th."""
    names = ("first", "second", "third")
    return names[place] if place < len(names) else f"{place + 1}th"


def _of_kafka(access: KafkaAccess) -> Iterator[Problem]:
    yield from both_or_neither(
        ("kafka.username", access.username), ("kafka.passwordFile", access.password_file)
    )
    yield from both_or_neither(
        ("kafka.certificateFile", access.certificate_file), ("kafka.keyFile", access.key_file)
    )
    if access.protocol in _SASL and not access.username:
        bound = f"set where kafka.protocol is {access.protocol.value}"
        yield conflict("kafka.username", access.username, bound)
