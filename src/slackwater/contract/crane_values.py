"""Words that the fields of Crane's objects are made of: numbers, names and amounts with bounds.

Owns their bounds and, where a bound is a regex, the words for a person. A regex ends in \\Z here,
as Python's $ lets a line end through; the generated schema writes $, as Go means it.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.schema import BOUND

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
_UNSIGNED = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?\Z"
#: A Kubernetes quantity; a bare number may stand without quotes.
Quantity = Annotated[
    LongNumber | Annotated[str, Meta(max_length=64, pattern=rf"^[+-]?{_UNSIGNED}")],
    Meta(extra={BOUND: "a quantity such as 4000, 1500m or 4k"}),
]
#: The same, above 0. That a text is not 0 is for crane_objects to say.
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


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of an object's metadata."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
