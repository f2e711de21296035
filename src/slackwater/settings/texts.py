"""Texts among the settings: names, addresses, queries, paths of files.

Line breaks and control characters are refused everywhere: these texts end up in HTTP headers,
queries and lines of a log.
"""

from typing import Annotated, Any

from msgspec import Meta

from slackwater.contract.label_selector import is_selector
from slackwater.contract.schema import BOUND, CHECK, HIDDEN

#: A key of Meta(extra=...): the text is the path of a file that will be read.
FILE = "file"
_LONGEST = 4096
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*"
_PORT = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|[1-9]\d{0,3})"
_HOST = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_URL = rf"https?://{_HOST}(?::{_PORT})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?"


def _text(pattern: str, bound: str, **extra: Any) -> Meta:  # noqa: ANN401  as Meta takes it
    whole = rf"^(?![\s\S]*[\x00-\x1f\x7f])(?a:{pattern})\Z"
    return Meta(max_length=_LONGEST, pattern=whole, extra={BOUND: bound, **extra})


Namespace = Annotated[str, _text(_LABEL, "a namespace's name such as default")]
ObjectName = Annotated[str, _text(_SUBDOMAIN, "an object's name such as web")]
WorkloadKind = Annotated[
    str,
    _text("(?:Deployment|StatefulSet|ReplicaSet)?", "Deployment, StatefulSet, ReplicaSet or empty"),
]
ContainerName = Annotated[
    str, _text(rf"(?:{_LABEL}|\*)?", "a container's name, * for all of a pod's, or empty")
]
SelectorText = Annotated[
    str, _text(r".*", "a label selector such as app=web, or empty", **{CHECK: is_selector})
]
HpaPrefix = Annotated[
    str,
    _text(r"(?:[a-z0-9][-a-z0-9.]{0,252})?", "the start of a name such as keda-hpa-, or none"),
]
MetricName = Annotated[
    str, _text(r"[A-Za-z0-9][-A-Za-z0-9_./]{0,252}", "a metric's name such as cpu")
]
Url = Annotated[
    str,
    _text(_URL, "an address such as http://prometheus:9090, without a user in it", **{HIDDEN: "@"}),
]
OptionalUrl = Annotated[
    str,
    _text(
        rf"(?:{_URL}(?:\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?)?",
        "an address such as http://pushgateway:9091, without a user in it, or empty",
        **{HIDDEN: "@"},
    ),
]
FilePath = Annotated[str, _text(r".*", "a file's path, or empty", **{FILE: True})]
PlainText = Annotated[str, _text(r"[\x20-\x7e]*", "plain ASCII text, or empty")]
HeaderName = Annotated[str, _text(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "a header's name")]
HeaderValue = Annotated[str, _text(r"[\x20-\x7e]*", "its value in plain ASCII", **{HIDDEN: ""})]
MetricLabel = Annotated[
    str, _text(r"[A-Za-z_][A-Za-z0-9_]*", "a label's name such as pod or exported_pod")
]
#: A metric's name is a label too, and each query has its own.
MatcherLabel = Annotated[
    str, _text(r"(?!__name__\Z)[A-Za-z_][A-Za-z0-9_]*", "a label's name such as cluster")
]
MatcherValue = Annotated[str, _text(r".*", "its value in one line")]
ConsumerGroup = Annotated[str, _text(r"[\x20-\x7e]{0,255}", "a consumer group's name, or empty")]
TopicName = Annotated[str, _text(r"[A-Za-z0-9._-]{0,249}", "a topic's name, or empty")]
PromqlQuery = Annotated[str, _text(r".*", "a query in PromQL in one line, or empty")]
Broker = Annotated[str, _text(rf"{_HOST}:{_PORT}", "brokers such as kafka-0:9092")]
