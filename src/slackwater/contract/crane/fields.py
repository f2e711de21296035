"""What several of Crane's objects have in common: bounded numbers and names, label selectors,
probes, and the status that Slackwater writes on them.

Where a bound is a regex, the description for people stands beside it. A regex ends in \\Z here
because Python's $ matches before a trailing newline; the generated schema writes $, as Go means it.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, field

from slackwater.contract.label_selector import LabelSelector, Operator, Requirement, flaw
from slackwater.contract.schema import BOUND
from slackwater.model.problem import Problem, below

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1

Seconds = Annotated[int, Meta(ge=0, le=_INT32)]
Count = Annotated[int, Meta(ge=1, le=_INT32)]
Percent = Annotated[int, Meta(ge=0, le=100)]
#: 0 is the highest, 7 the lowest.
Priority = Annotated[int, Meta(ge=0, le=7)]
#: int32 and int64 of which nobody says more.
Number = Annotated[int, Meta(ge=-_INT32 - 1, le=_INT32)]
LongNumber = Annotated[int, Meta(ge=-_INT64 - 1, le=_INT64)]
Amount = Annotated[int, Meta(ge=0, le=_INT64)]

NAME_WANTED = "a DNS label: lower-case letters, digits and '-', at most 63"
QUANTITY_WANTED = "a quantity above 0 such as 4000, 1500m or 4k"
#: Of a probe of the node.
NUMBERED_PORT_WANTED = "a number: a node's ports have no names"

Text = Annotated[str, Meta(max_length=1024)]
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=63,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z",
        extra={BOUND: NAME_WANTED},
    ),
]
#: Exponents as far as a quantity can be read (model.units): 1e30 fits in no int64.
_EXPONENT = r"[eE][+-]?(0?[0-9]|1[0-8])"
_UNSIGNED = rf"([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|{_EXPONENT})?\Z"
#: A Kubernetes quantity; a bare number may stand without quotes.
Quantity = Annotated[
    LongNumber | Annotated[str, Meta(max_length=64, pattern=rf"^[+-]?{_UNSIGNED}")],
    Meta(extra={BOUND: "a quantity such as 4000, 1500m or 4k"}),
]
#: The same, above 0. That a text is not 0 is checked in crane.objects.
PositiveQuantity = Annotated[
    Annotated[int, Meta(ge=1, le=_INT64)]
    | Annotated[str, Meta(max_length=64, pattern=rf"^\+?{_UNSIGNED}")],
    Meta(extra={BOUND: QUANTITY_WANTED}),
]
#: A decimal number as a text, as Go's ParseFloat takes it.
Decimal = Annotated[
    str,
    Meta(
        max_length=64,
        pattern=r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z",
        extra={BOUND: "a number in quotes such as '0.05'"},
    ),
]
#: Days, or a duration of Go.
Duration = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^([0-9]+d)?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*\Z",
        extra={BOUND: "a duration such as 3d, 60s or 1h30m"},
    ),
]


_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LabelValue = Annotated[
    str,
    Meta(
        max_length=63,
        pattern=rf"^({_WORD})?\Z",
        extra={BOUND: "a label's value: at most 63 letters, digits, '-', '_' and '.'"},
    ),
]
LabelKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=317,
        pattern=rf"^([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_WORD}\Z",
        extra={BOUND: "a label's key such as team or example.com/team"},
    ),
]


class SelectorExpression(msgspec.Struct, frozen=True):
    """One condition on labels."""

    key: Annotated[LabelKey, Meta(description="The label's key.")]
    operator: Annotated[
        Operator, Meta(description="How the label's value relates to the values given.")
    ]
    values: Annotated[
        tuple[LabelValue, ...],
        Meta(description="With In and NotIn: at least one. Otherwise: none.", max_length=64),
    ] = ()


class Selector(msgspec.Struct, frozen=True, rename="camel"):
    """A label selector; all of its conditions must hold. An empty one selects everything."""

    match_labels: Annotated[
        dict[str, LabelValue],
        Meta(description="Labels that must be there, with these values.", max_length=64),
    ] = {}
    match_expressions: Annotated[
        tuple[SelectorExpression, ...], Meta(description="Conditions on labels.", max_length=16)
    ] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        return LabelSelector(tuple(self._requirements(""))).selects(labels)

    def flaw(self, where: str) -> Problem | None:
        """What makes Kubernetes refuse it; None if nothing does."""
        return flaw(LabelSelector(tuple(self._requirements(where))))

    def _requirements(self, where: str) -> Iterator[Requirement]:
        for key, value in self.match_labels.items():
            path = below(f"{where}.matchLabels", key)
            yield Requirement(key, Operator.IN.value, (value,), path)
        for place, each in enumerate(self.match_expressions):
            path = f"{where}.matchExpressions[{place}]"
            yield Requirement(each.key, each.operator.value, each.values, path)


_PORT_NAME = Annotated[
    str, Meta(min_length=1, max_length=15, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
]


class Scheme(enum.Enum):
    HTTP = "HTTP"
    HTTPS = "HTTPS"


class HttpHeader(msgspec.Struct, frozen=True):
    """One header of the request."""

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=256,
            pattern=r"^[-A-Za-z0-9]+\Z",
            extra={BOUND: "a header's name: letters, digits and '-'"},
            description="The header's name.",
        ),
    ]
    # Without a pattern: a refused value is repeated to people, and this one may be a secret.
    value: Annotated[Text, Meta(description="The header's value, one line of ASCII.")]


class HttpGet(msgspec.Struct, frozen=True, rename="camel"):
    """An HTTP request whose answer is in Prometheus' text format; every series in it is a metric
    that a rule may name. It is sent once in each period of the agent."""

    port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | _PORT_NAME,
        Meta(
            description="The port's number; of a pod also the name of one of its ports.",
            extra={BOUND: "a port from 1 to 65535, or a port's name"},
        ),
    ]
    host: Annotated[
        str,
        Meta(
            max_length=253,
            pattern=r"^[-A-Za-z0-9._:]*\Z",
            extra={BOUND: "a host's name, or an address without brackets"},
            description="The host to ask. Without it, the node that the agent runs on. Ignored in "
            "a PodQOS: a pod is asked at its own address.",
        ),
    ] = ""
    path: Annotated[
        str,
        Meta(
            max_length=1024,
            pattern=r"^[!-~]*\Z",
            extra={BOUND: "a path such as /metrics, in ASCII and without spaces"},
            description="The path to ask for, with its query if there is one; without it, /.",
        ),
    ] = ""
    scheme: Annotated[
        Scheme | None,
        Meta(description="HTTP, or HTTPS, whose certificate is not verified. Without it, HTTP."),
    ] = None
    http_headers: Annotated[
        tuple[HttpHeader, ...], Meta(description="Headers to send.", max_length=64)
    ] = ()


class NodeLocalGet(msgspec.Struct, frozen=True):
    """The node's own measurements are the source of the metrics."""

    cache_seconds: Annotated[
        Seconds,
        Meta(
            description="How many seconds the last measurement stands in for one that fails. With "
            "0 a failed one is missing at once."
        ),
    ] = field(default=60, name="localCacheTTLSeconds")


_TIMEOUT = Meta(
    description="How many seconds a whole answer to httpGet may take. Without it: 1. Has no effect "
    "on nodeLocalGet."
)


class NodeQualityProbe(msgspec.Struct, frozen=True, rename="camel"):
    """Where the metrics come from: exactly one of nodeLocalGet and httpGet."""

    node_local_get: NodeLocalGet | None = None
    http_get: HttpGet | None = None
    timeout_seconds: Annotated[Count | None, _TIMEOUT] = None


class PodQualityProbe(msgspec.Struct, frozen=True, rename="camel"):
    """Metrics that the pods themselves give: each of them on the node is asked, and its series are
    labelled PodName, PodNamespace and PodUid."""

    http_get: HttpGet | None = None
    timeout_seconds: Annotated[Count | None, _TIMEOUT] = None


#: The types of the conditions that Slackwater writes.
VALID, ENFORCED, TRIGGERED = "Valid", "Enforced", "Triggered"


class Truth(enum.Enum):
    """A condition's status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class PolicyCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that is true of the object or not, as metav1.Condition."""

    type: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=316,
            description="What the condition is about.",
        ),
    ]
    status: Annotated[Truth, Meta(description="Whether it is so.")]
    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?\Z",
            description="Why, in one word for programs.",
        ),
    ]
    message: Annotated[str, Meta(max_length=32768, description="Why, in a sentence.")]
    last_transition_time: Annotated[
        str,
        Meta(
            extra_json_schema={"format": "date-time"},
            description="When the status last changed.",
        ),
    ]
    observed_generation: Annotated[
        Amount, Meta(description="The generation of the object that this is about.")
    ] = 0


class EnsuranceStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What Slackwater's manager says about the object."""

    observed_generation: Annotated[
        Amount, Meta(description="The generation of the object that this is about.")
    ] = 0
    summary: Annotated[
        str, Meta(max_length=4096, description="What the object does, in a sentence.")
    ] = ""
    nodes: Annotated[Amount | None, Meta(description="How many nodes it is for.")] = None
    conditions: Annotated[
        tuple[PolicyCondition, ...],
        Meta(
            description="Valid: nothing in it is wrong or missing. Enforced: nodes follow it. "
            "Triggered: one of its rules is triggered on a node.",
            max_length=16,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()


def read_ensurance_status(raw: msgspec.Raw) -> EnsuranceStatus | None:
    """None if the object has no status, or one that is not ours to understand."""
    try:
        return msgspec.json.decode(raw, type=EnsuranceStatus | None)
    except msgspec.DecodeError:
        return None
