"""Keys of an object that its kind does not have: misspelt ones, mostly, whose defaults then count.

An API server prunes them, and tells whoever applied the object. A folder has nobody else to tell.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import inspect

from slackwater.contract.crane.ensurance import AvoidanceAction, NodeQos, NodeQosEnsurancePolicy
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.crane.prediction import TimeSeriesPrediction
from slackwater.contract.document import Field, members
from slackwater.contract.ensurance_metric import EnsuranceMetric
from slackwater.contract.kubernetes import KubernetesObject, read_head
from slackwater.contract.schema import annotation_of, key_of, struct_type

_KINDS: Mapping[str, type[KubernetesObject]] = {
    "AvoidanceAction": AvoidanceAction,
    "EnsuranceMetric": EnsuranceMetric,
    "NodeQOS": NodeQos,
    "NodeQOSEnsurancePolicy": NodeQosEnsurancePolicy,
    "PodQOS": PodQos,
    "TimeSeriesPrediction": TimeSeriesPrediction,
}
#: What every object has, and what is no user's to write.
_OF_EVERY_KIND = frozenset({"apiVersion", "kind", "metadata", "status"})
#: Of one document: more of them are counted.
_MOST_TOLD = 8


def find_unknown_fields(kind: str, document: object, source: str) -> tuple[str, ...]:
    """One sentence for each such field of a good object; nothing about other kinds."""
    if kind not in _KINDS:
        return ()
    _, field = read_head(document, source)
    stated = {key: each.value for key, each in members(field) if key not in _OF_EVERY_KIND}
    return find_unknown_keys(msgspec.structs.replace(field, value=stated), _KINDS[kind])


def find_unknown_keys(field: Field, kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The same of a good mapping that is no object."""
    return _told(_strangers(field, struct_type(kind)))


def _told(found: Iterator[Field]) -> tuple[str, ...]:
    unknown = [each.where() for each in found]
    told = [f"{each} is not known and has no effect" for each in unknown[:_MOST_TOLD]]
    if len(unknown) > _MOST_TOLD:
        told[-1] += f", nor have {len(unknown) - _MOST_TOLD} more"
    return tuple(told)


def _strangers(field: Field, info: inspect.Type) -> Iterator[Field]:
    """Down to where the types are plain values, and no deeper: aliases of YAML can be endless."""
    match annotation_of(info).type, field.value:
        case inspect.StructType(fields=fields), dict() as value:
            known = {key_of(each): each.type for each in fields}
            for key, inner in value.items():
                at = field.at(str(key), inner)
                if key not in known:
                    yield at
                else:
                    yield from _strangers(at, known[key])
        case inspect.DictType(value_type=kind), dict() as value:
            for key, inner in value.items():
                yield from _strangers(field.at(str(key), inner), kind)
        case inspect.VarTupleType(item_type=kind), list() as value:
            for place, inner in enumerate(value):
                at = Field(field.source, f"{field.path}[{place}]", inner)
                yield from _strangers(at, kind)
