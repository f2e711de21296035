"""What the containers of a namespace use, from metrics.k8s.io: where there is no Prometheus.

Owns the format of PodMetrics (v1beta1) and what its absence means. It has no requests, and its
averages are over the source's own window (15 s to a minute), whatever ours is: that is noted.
"""

import msgspec

from slackwater.contract.resources import Resource
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.model.units import QuantityError, parse_quantity
from slackwater.rebalancer.observed import Cores, NamespaceUsage, Unavailable
from slackwater.rebalancer.reason import Reason

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")


class _PodMetricsMeta(msgspec.Struct, frozen=True):
    name: str


class _ContainerMetrics(msgspec.Struct, frozen=True):
    name: str
    usage: dict[str, str] | None = None


class _PodMetrics(msgspec.Struct, frozen=True):
    metadata: _PodMetricsMeta
    containers: list[_ContainerMetrics] | None = None
    window: str = ""


_DECODER = msgspec.json.Decoder(_PodMetrics)


def read_usage(client: Client, namespace: str) -> NamespaceUsage | Unavailable:
    try:
        found = client.list(POD_METRICS, _DECODER.decode, namespace=namespace).items
    except RequestError as error:
        return _problem(error, namespace)
    except (msgspec.DecodeError, UnicodeError) as error:
        told = f"metrics.k8s.io: an object of its list is no PodMetrics: {error}"
        return Unavailable(Reason.KUBERNETES_ERROR, told)
    usage = {
        (pod.metadata.name, each.name): _cores(each)
        for pod in found
        for each in pod.containers or ()
    }
    if not usage:
        return Unavailable(
            Reason.NO_USAGE_DATA,
            f"metrics.k8s.io has no usage of any container in the namespace {quoted(namespace)}; "
            "new pods take a minute, and the kubelets must be reachable by metrics-server",
        )
    return NamespaceUsage(usage, {}, _notes(found))


def _cores(container: _ContainerMetrics) -> Cores | Gap:
    text = (container.usage or {}).get("cpu")
    if text is None:
        return Gap("metrics.k8s.io tells no cpu")
    try:
        amount = parse_quantity(text)
    except QuantityError as error:
        return Gap(f"metrics.k8s.io: {error}")
    if amount.numerator < 0:
        return Gap(f"metrics.k8s.io tells {quoted(text)}, below zero")
    return Cores(amount.numerator / amount.denominator)


def _notes(found: list[_PodMetrics]) -> tuple[str, ...]:
    """The windows differ by fractions of a second; one of them is enough."""
    window = next((each.window for each in found if each.window), "")
    return (f"metrics.k8s.io tells averages over {window[:20]}, not over our window",) * bool(
        window
    )


def _problem(error: RequestError, namespace: str) -> Unavailable:
    if isinstance(error, HttpStatusError) and error.status == 404:
        return Unavailable(
            Reason.NO_USAGE_DATA,
            "metrics.k8s.io is not there: metrics-server, or another source of it, is not "
            "installed; install one, or take the usage from Prometheus",
        )
    if isinstance(error, HttpStatusError) and error.status == 403:
        return Unavailable(
            Reason.KUBERNETES_ERROR,
            f"{error}; list on pods of metrics.k8s.io in {quoted(namespace)} has to be granted",
        )
    if isinstance(error, HttpStatusError) and error.status == 503:
        return Unavailable(
            Reason.KUBERNETES_ERROR,
            f"{error}; metrics-server is installed, but does not answer the API server",
        )
    return Unavailable(Reason.KUBERNETES_ERROR, str(error))
