"""What the texts among the rebalancer's settings look like. Owns these shapes."""

from slackwater.settings.wording import Shape

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*"
_PORT = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|[1-9]\d{0,3})"
_HOST = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_URL = rf"https?://{_HOST}(?::{_PORT})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?"

NAMESPACE = Shape(_LABEL, "a namespace's name such as default")
OBJECT = Shape(_SUBDOMAIN, "an object's name such as web")
KIND = Shape(
    "(?:Deployment|StatefulSet|ReplicaSet)?", "Deployment, StatefulSet, ReplicaSet or empty"
)
CONTAINER = Shape(rf"(?:{_LABEL}|\*)?", "a container's name, * for all of a pod's, or empty")
#: Its grammar is contract.selector_text's.
SELECTOR = Shape(r".*", "a label selector such as app=web, or empty")
PREFIX = Shape(r"(?:[a-z0-9][-a-z0-9.]{0,252})?", "the start of a name such as keda-hpa-, or none")
METRIC = Shape(r"[A-Za-z0-9][-A-Za-z0-9_./]{0,252}", "a metric's name such as cpu")
URL = Shape(_URL, "an address such as http://prometheus:9090, without a user in it", hidden="@")
URL_OR_NONE = Shape(
    rf"(?:{_URL}(?:\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?)?",
    "an address such as http://pushgateway:9091, without a user in it, or empty",
    hidden="@",
)
FILE = Shape(r".*", "a file's path, or empty")
PLAIN = Shape(r"[\x20-\x7e]*", "plain ASCII text, or empty")
HEADER = Shape(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "a header's name")
HEADER_VALUE = Shape(r"[\x20-\x7e]*", "its value in plain ASCII", hidden="")
LABEL = Shape(r"[A-Za-z_][A-Za-z0-9_]*", "a label's name such as pod or exported_pod")
#: A metric's name is a label too, and each query has its own.
MATCHER = Shape(r"(?!__name__\Z)[A-Za-z_][A-Za-z0-9_]*", "a label's name such as cluster")
MATCHER_VALUE = Shape(r".*", "its value in one line")
GROUP = Shape(r"[\x20-\x7e]{0,255}", "a consumer group's name, or empty")
TOPIC = Shape(r"[A-Za-z0-9._-]{0,249}", "a topic's name, or empty")
QUERY = Shape(r".*", "a query in PromQL in one line, or empty")
BROKER = Shape(rf"{_HOST}:{_PORT}", "brokers such as kafka-0:9092")
