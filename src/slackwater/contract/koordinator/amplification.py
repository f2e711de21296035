"""A Node's allocatable CPU and memory times its amplification ratio: what the webhook decides.

Only the node's own kubelet knows the true amounts, and a write shows them only where it changes
them: a kubelet that sees what it computes sends nothing, and everybody else sends back what is
stored. So each write is read together with a record of the last one, an annotation of ours:

    the kubelet's write changes an amount     that is the true amount
    the stored amount is the recorded one     nobody stated another; the recorded true one counts
    it is not                                 it was stated while no webhook was there
    the kubelet confirms an amplified amount  the true amount may have become equal to it: one unit
                                              less is stored, and the kubelet states it within 10 s

A value that is amplified is therefore never amplified again, whatever happened in between.
"""

import re
from collections.abc import Mapping
from typing import TypeGuard

import msgspec

from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import DocumentName, Problem, quoted
from slackwater.model.units import QuantityError, Ratio, parse_quantity, promised

#: What was stored last, and of which true amounts. Not below slackwater.io/, where agents write.
RECORD_ANNOTATION = "manager.slackwater.io/amplified-allocatable"
#: A Node without any of them takes no part.
ANNOTATIONS = (AMPLIFICATION_ANNOTATION, RAW_ALLOCATABLE_ANNOTATION, RECORD_ANNOTATION)
CPU, MEMORY = "cpu", "memory"
AMPLIFIED_RESOURCES = (CPU, MEMORY)

_NONE = Ratio(1)
#: A configured ratio of 1000 times a normalization ratio of 5.
_LARGEST = 5000
_WANTED = f"a number up to {_LARGEST}"
_MILLI, _KIBI = 1000, 1024
_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?", re.ASCII)


class NodeAmounts(msgspec.Struct, frozen=True):
    """What is read of a Node: quantities of cpu and memory, and the three annotations."""

    name: str
    capacity: Mapping[str, str] = {}
    allocatable: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class RecordedAmount(msgspec.Struct, frozen=True, omit_defaults=True):
    """`stored` is what was last stored of the true amount `raw`, which is empty where it is not
    known. `kubelet`: the node's own kubelet stated it, so nobody else is believed. `asks`: one unit
    less was stored, and the kubelet's next write will tell."""

    stored: str
    raw: str = ""
    kubelet: bool = False
    asks: bool = False


class AmplificationRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation's JSON. `ratio` is the last good text of the ratio's annotation."""

    ratio: str = ""
    cpu: RecordedAmount | None = None
    memory: RecordedAmount | None = None

    def amount(self, name: str) -> RecordedAmount | None:
        return self.cpu if name == CPU else self.memory


class NodeChanges(msgspec.Struct, frozen=True):
    """What has to be changed in a Node as it was sent: quantities, and annotations, of which None
    is removed. `problem` is a sentence about an annotation that cannot be read."""

    allocatable: Mapping[str, str] = {}
    annotations: Mapping[str, str | None] = {}
    problem: str = ""

    def __bool__(self) -> bool:
        return bool(self.allocatable or self.annotations)


def amplify_node(old: NodeAmounts, new: NodeAmounts, *, by_kubelet: bool) -> NodeChanges:
    """What a write of a Node's status has to become. `old` is what is stored, `new` what was sent,
    `by_kubelet` whether the node's own kubelet sent it."""
    record = read_record(old.annotations.get(RECORD_ANNOTATION, ""))
    stated = new.annotations.get(AMPLIFICATION_ANNOTATION, "")
    legacy = _read_raw(old.annotations.get(RAW_ALLOCATABLE_ANNOTATION, ""))
    amounts = {
        name: _learn(_Seen.of(name, old, new, record, legacy), by_kubelet=by_kubelet)
        for name in AMPLIFIED_RESOURCES
        if _is_quantity(new.allocatable.get(name))
    }
    if not stated:
        return _release(new, amounts)
    ratios, problem = read_ratios(stated, new.name), ""
    if isinstance(ratios, Gap):
        stated, problem = record.ratio, ratios.reason
        held = read_ratios(stated, new.name)
        if isinstance(held, Gap):
            return NodeChanges(problem=problem)
        ratios = held
    stored = {
        name: _to_store(name, new.allocatable[name], each, ratios.get(name, _NONE))
        for name, each in amounts.items()
    }
    return NodeChanges(
        _differing(new.allocatable, stored), _annotate(new, stated, stored, amounts), problem
    )


def read_ratios(text: str, node: str) -> dict[str, Ratio] | Gap:
    """The annotation's ratios by resource, exact; those that amplify nothing, up to 1, are left
    out."""
    place = f"metadata.annotations[{AMPLIFICATION_ANNOTATION}]"
    source = DocumentName("", "Node", "", node)
    try:
        stated = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        wanted = 'a JSON mapping of resources to ratios, such as {"cpu":1.80}'
        return Gap(Problem(place, quoted(text), wanted, document=source).sentence())
    found: dict[str, Ratio] = {}
    for name, raw in stated.items():
        number = bytes(raw).decode("utf-8", "replace").strip()
        ratio = parse_quantity(number) if _NUMBER.fullmatch(number) else None
        if ratio is None or ratio.numerator > _LARGEST * ratio.denominator:
            path = f"{place}[{quoted(name)}]"
            return Gap(Problem(path, quoted(number), _WANTED, document=source).sentence())
        if ratio.numerator > ratio.denominator:
            found[name] = ratio
    return found


def read_record(text: str) -> AmplificationRecord:
    """One that cannot be read says nothing: the kubelet's next write restores it."""
    try:
        found = msgspec.json.decode(text, type=AmplificationRecord)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return AmplificationRecord()
    usable = {
        name: each
        for name in AMPLIFIED_RESOURCES
        if (each := found.amount(name)) is not None
        and _is_quantity(each.stored)
        and (not each.raw or _is_quantity(each.raw))
    }
    return AmplificationRecord(found.ratio, usable.get(CPU), usable.get(MEMORY))


def multiply(name: str, amount: str, ratio: Ratio) -> str:
    """A quantity times a ratio, exact, in milliCPU or bytes. Rounded up, as Kubernetes rounds any
    quantity to these units, and as Koordinator's scheduler amplifies: 3 × 1.13 is 3390m."""
    exact = parse_quantity(amount)
    unit = _MILLI if name == CPU else 1
    return _format(
        name,
        promised(exact.numerator * unit * ratio.numerator, exact.denominator * ratio.denominator),
    )


def json_patch(new: NodeAmounts, changes: NodeChanges) -> list[dict[str, object]]:
    """RFC 6902, for the Node as it was sent."""
    made: list[dict[str, object]] = []
    if changes.annotations and not new.annotations:
        made.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    for name, text in changes.annotations.items():
        path = f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}"
        made.append(
            {"op": "remove", "path": path}
            if text is None
            else {"op": "add", "path": path, "value": text}
        )
    made += [
        {"op": "replace", "path": f"/status/allocatable/{name}", "value": text}
        for name, text in changes.allocatable.items()
    ]
    return made


class _Seen(msgspec.Struct, frozen=True):
    """One resource of a write: the amount that is stored, None where there is none, and the one
    that was sent. `legacy` is the true amount by Koordinator's annotation, where nothing of ours is
    recorded."""

    stored: str | None
    sent: str
    record: RecordedAmount | None
    legacy: str | None
    capacity_changed: bool
    above_capacity: bool

    @classmethod
    def of(
        cls,
        name: str,
        old: NodeAmounts,
        new: NodeAmounts,
        record: AmplificationRecord,
        legacy: Mapping[str, str],
    ) -> "_Seen":
        before, after = old.capacity.get(name), new.capacity.get(name)
        sent = new.allocatable[name]
        return cls(
            old.allocatable.get(name),
            sent,
            record.amount(name),
            legacy.get(name),
            not _same(before, after),
            _is_quantity(after) and _compare(sent, after) > 0,
        )

    def is_stated(self, *, by_kubelet: bool) -> bool:
        """Whether the write says the amount. A kubelet whose capacity changes has computed both,
        also if the other came out as it is stored."""
        return not _same(self.stored, self.sent) or (by_kubelet and self.capacity_changed)


class _Learnt(msgspec.Struct, frozen=True):
    """The true amount, as far as it is known; `asks`: the kubelet has to be asked."""

    raw: str
    kubelet: bool
    asks: bool = False
    #: Asked before, and not answered yet.
    waits: bool = False


def _learn(seen: _Seen, *, by_kubelet: bool) -> _Learnt:
    stated = seen.is_stated(by_kubelet=by_kubelet)
    if by_kubelet and stated:
        return _Learnt(seen.sent, kubelet=True)
    if seen.record is None:
        return _learn_unrecorded(seen, by_kubelet=by_kubelet, stated=stated)
    record = seen.record
    untouched = _same(seen.stored, record.stored)
    if by_kubelet:
        is_amplified = record.asks or not _same(record.stored, record.raw)
        if untouched and is_amplified:
            return _Learnt(record.raw, record.kubelet, asks=True)
        return _Learnt(seen.sent, kubelet=True)
    if stated and not record.kubelet and not _same(seen.sent, record.stored):
        return _Learnt(seen.sent, kubelet=False)
    if untouched:
        return _Learnt(record.raw, record.kubelet, waits=record.asks)
    return _Learnt(seen.stored or seen.sent, record.kubelet)


def _learn_unrecorded(seen: _Seen, *, by_kubelet: bool, stated: bool) -> _Learnt:
    """Nothing of ours is recorded: the first time, or somebody removed it, or Koordinator was here
    before."""
    if stated:
        return _Learnt(seen.sent, kubelet=False)
    if seen.legacy is not None and not _same(seen.legacy, seen.sent):
        return _Learnt(seen.legacy, kubelet=False, asks=by_kubelet)
    if seen.above_capacity:  # no true amount is
        return _Learnt("", kubelet=False, asks=True)
    return _Learnt(seen.sent, kubelet=by_kubelet)


def _release(new: NodeAmounts, amounts: Mapping[str, _Learnt]) -> NodeChanges:
    """The ratio is gone: true amounts again, and no trace."""
    true = {name: each.raw for name, each in amounts.items() if each.raw}
    gone = (RAW_ALLOCATABLE_ANNOTATION, RECORD_ANNOTATION)
    return NodeChanges(
        _differing(new.allocatable, true), {name: None for name in gone if name in new.annotations}
    )


def _to_store(name: str, sent: str, learnt: _Learnt, ratio: Ratio) -> str:
    if learnt.asks:
        return _one_less(name, sent)
    if learnt.waits or not learnt.raw:
        return sent
    return learnt.raw if ratio == _NONE else multiply(name, learnt.raw, ratio)


def _annotate(
    new: NodeAmounts, stated: str, stored: Mapping[str, str], amounts: Mapping[str, _Learnt]
) -> dict[str, str | None]:
    """The true amounts for everybody who reads them, and our record, where they differ."""
    recorded = {
        name: RecordedAmount(stored[name], each.raw, each.kubelet, each.asks or each.waits)
        for name, each in amounts.items()
    }
    record = AmplificationRecord(stated, recorded.get(CPU), recorded.get(MEMORY))
    raw = {name: each.raw for name, each in amounts.items() if each.raw}
    wanted: dict[str, str | None] = {
        RAW_ALLOCATABLE_ANNOTATION: _encode(raw) if raw else None,
        RECORD_ANNOTATION: _encode(record),
    }
    return {name: text for name, text in wanted.items() if new.annotations.get(name) != text}


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _read_raw(text: str) -> dict[str, str]:
    """Koordinator's annotation; what cannot be read is not there."""
    try:
        stated = msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return {name: amount for name, amount in stated.items() if _is_quantity(amount)}


def _differing(sent: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in wanted.items() if not _same(sent.get(name), amount)}


def _one_less(name: str, amount: str) -> str:
    whole = parse_quantity(amount).of(_MILLI if name == CPU else 1)
    return _format(name, max(whole - 1, 0))


def _format(name: str, whole: int) -> str:
    """Of milliCPU or bytes."""
    if name == CPU:
        return f"{whole}m" if whole % _MILLI else str(whole // _MILLI)
    return str(whole) if whole % _KIBI else f"{whole // _KIBI}Ki"


def _same(one: str | None, other: str | None) -> bool:
    """By value: 1000m is 1."""
    if one == other:
        return True
    return _is_quantity(one) and _is_quantity(other) and _compare(one, other) == 0


def _compare(one: str, other: str) -> int:
    a, b = parse_quantity(one), parse_quantity(other)
    return a.numerator * b.denominator - b.numerator * a.denominator


def _is_quantity(text: str | None) -> TypeGuard[str]:
    try:
        return text is not None and parse_quantity(text).numerator >= 0
    except QuantityError:
        return False


def own_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those that amplification reads."""
    return {name: annotations[name] for name in ANNOTATIONS if name in annotations}
