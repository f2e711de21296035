"""Probes of Crane's objects. Crane accepts them all and executes none."""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta, field

from slackwater.contract.crane_values import Count, Seconds, Text
from slackwater.contract.schema import BOUND

_PORT_NAME = Annotated[
    str, Meta(min_length=1, max_length=15, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
]


class Scheme(enum.Enum):
    HTTP = "HTTP"
    HTTPS = "HTTPS"


class HttpHeader(msgspec.Struct, frozen=True):
    """One header of the request."""

    name: Annotated[Text, Meta(description="The header's name.")]
    value: Annotated[Text, Meta(description="The header's value.")]


class HttpGet(msgspec.Struct, frozen=True, rename="camel"):
    """An HTTP request. Accepted, has no effect."""

    port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | _PORT_NAME,
        Meta(
            description="The port's number, or its name.",
            extra={BOUND: "a port from 1 to 65535, or a port's name"},
        ),
    ]
    host: Annotated[Text, Meta(description="The host to ask.")] = ""
    path: Annotated[Text, Meta(description="The path to ask for.")] = ""
    scheme: Annotated[Scheme | None, Meta(description="HTTP, or HTTPS.")] = None
    http_headers: Annotated[
        tuple[HttpHeader, ...], Meta(description="Headers to send.", max_length=64)
    ] = ()


class NodeLocalGet(msgspec.Struct, frozen=True):
    """The node's own measurements are the source of the metrics."""

    cache_seconds: Annotated[
        Seconds,
        Meta(description="Accepted, has no effect: measurements are never older than a tick."),
    ] = field(default=60, name="localCacheTTLSeconds")


class NodeQualityProbe(msgspec.Struct, frozen=True, rename="camel"):
    """Where the metrics come from: exactly one of nodeLocalGet and httpGet."""

    node_local_get: NodeLocalGet | None = None
    http_get: HttpGet | None = None
    timeout_seconds: Annotated[Count | None, Meta(description="Accepted, has no effect.")] = None


class PodQualityProbe(msgspec.Struct, frozen=True, rename="camel"):
    """How a pod's quality would be measured. Accepted, has no effect."""

    http_get: HttpGet | None = None
    timeout_seconds: Annotated[Count | None, Meta(description="Accepted, has no effect.")] = None
