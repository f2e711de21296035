"""The template of nodes' predictions: a text in which {{.metadata.name}} is a node's name.

Crane renders it by Go's html/template over the Node object. Of that language one action is
understood, the node's name, which is all that its documentation uses; Go's escaping for HTML leaves
a node's name as it is, for it has only lower-case letters, digits, dots and dashes. Anything else
between braces is refused with its place. Go would insert the name and then parse YAML; here it is
parsed once, with a mark in place of the name, so that a node called 1.5 stays a text.
"""

import functools
import re

import msgspec

from slackwater.contract.crane.objects import read_prediction_template
from slackwater.contract.crane.prediction import (
    Algorithm,
    AlgorithmType,
    PredictionMetric,
    PredictionTemplate,
    QueryResource,
    QueryType,
    TargetRef,
    TimeSeriesPredictionSpec,
)
from slackwater.contract.crane.unknown_fields import find_unknown_keys
from slackwater.contract.document import Field
from slackwater.model.problem import InvalidError, Problem, quoted, shorten
from slackwater.observation.objects.documents import one_document

#: Stands for the name while the text is parsed; no text of a template has a private character.
_MARK = "\ue000node\ue000"
#: A dash at a brace takes the space before or behind it away, as in Go.
_ACTION = re.compile(r"(?:\s*\{\{-(?=\s)|\{\{)(.*?)(?:(?<=\s)-\}\}\s*|\}\})", re.DOTALL)
_NAME = re.compile(r"\s*\.metadata\.name\s*")
_WANTED = "{{.metadata.name}}, the one action that is understood"
_LONGEST_ACTION = 60
#: Seconds.
_DEFAULT_WINDOW = 3600
#: Every node's prediction is remembered while the template stays the same.
_MOST_NODES = 20_000


class NodeTemplate(msgspec.Struct, frozen=True):
    """A template that was read. `encoded` is its spec in JSON, with a mark for the name. `warnings`
    are sentences about fields that no prediction has."""

    encoded: str
    warnings: tuple[str, ...] = ()

    def spec_of(self, node: str) -> TimeSeriesPredictionSpec:
        return _spec_of(self.encoded, node)


@functools.lru_cache(maxsize=8)
def read_node_template(text: str, source: str) -> NodeTemplate:
    """Raises InvalidError: one sentence with the place, the value and the bound."""
    if _MARK[0] in text:
        raise InvalidError(Problem(source, quoted(_MARK[0]), "without private characters"))
    document = _parse(text, source)
    encoded = encode_template(read_prediction_template(document, source)).encoded
    unknown = find_unknown_keys(Field(source, "", document), TimeSeriesPredictionSpec)
    return NodeTemplate(encoded, unknown)


def encode_template(template: PredictionTemplate) -> NodeTemplate:
    """The target is the node, whatever the template says."""
    fields = {each: getattr(template, each) for each in template.__struct_fields__}
    target = TargetRef(name=_MARK, kind="Node", api_version="v1")
    spec = TimeSeriesPredictionSpec(**fields, target_ref=target)
    return NodeTemplate(msgspec.json.encode(spec).decode())


def default_template() -> NodeTemplate:
    """Ours, where the cluster has none and the manager is told to predict nodes all the same."""
    algorithm = Algorithm(AlgorithmType.ADAPTIVE)
    metrics = tuple(
        PredictionMetric(each.value, QueryType.RESOURCE, algorithm, resource_query=each)
        for each in QueryResource
    )
    return encode_template(PredictionTemplate(metrics, _DEFAULT_WINDOW))


def _parse(text: str, source: str) -> object:
    marked = _ACTION.sub(lambda found: _insert(found, text, source), text)
    for brace in ("{{", "}}"):
        place = marked.find(brace)
        # Two closing braces are an end of two mappings in YAML, unless an action was begun.
        if place >= 0 and brace == "{{":
            raise _refused(source, marked, place, brace)
    return one_document(marked, source)


def _insert(found: re.Match[str], text: str, source: str) -> str:
    if not _NAME.fullmatch(found[1]):
        raise _refused(source, text, found.start(), found[0].strip())
    return _MARK


def _refused(source: str, text: str, place: int, seen: str) -> InvalidError:
    line = text.count("\n", 0, place) + 1
    return InvalidError(
        Problem(f"{source}:{line}, an action,", quoted(shorten(seen, _LONGEST_ACTION)), _WANTED)
    )


@functools.lru_cache(maxsize=_MOST_NODES)
def _spec_of(encoded: str, node: str) -> TimeSeriesPredictionSpec:
    return msgspec.json.decode(encoded.replace(_MARK, node), type=TimeSeriesPredictionSpec)
