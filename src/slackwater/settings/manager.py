"""Settings of the manager, and how flags and variables say them."""

from collections.abc import Mapping

from slackwater.contract.decoding import with_stated
from slackwater.contract.document import Field
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.contract.schema import SettingsStruct
from slackwater.model.problem import Problem
from slackwater.settings.prometheus import PrometheusSettings, prometheus_conflicts
from slackwater.settings.setting import Names, Setting, StatedText, check_texts, nest, settings_of

#: How pods are labelled is the rebalancer's to know: predictions name their series themselves.
_NOT_OURS = ("podLabel", "containerLabel", "namespaceLabel")
PROMETHEUS_SETTINGS: tuple[Setting, ...] = tuple(
    each
    for each in settings_of(
        PrometheusSettings, Names("SLACKWATER_", key="prometheus", said="prometheus")
    )
    if not each.key.endswith(_NOT_OURS)
)
ENDPOINT = "prometheus.endpoint"


class ManagerSettings(SettingsStruct, frozen=True):
    """`prometheus`: where the history of usage is, None where nothing is predicted.
    `default_template`: predict every node also where the cluster has no template. `slo_config`:
    the ConfigMap with the model of CPU normalization."""

    prometheus: PrometheusSettings | None = None
    default_template: bool = False
    slo_config: SloConfigName = SloConfigName()
    #: Serve the webhook for writes of a Node's status, and have nodes looked at again.
    webhook: bool = False


def read_prometheus(
    texts: Mapping[str, StatedText], problems: list[Problem]
) -> PrometheusSettings | None:
    """What flags and variables say, by key; None where they name no server."""
    stated = check_texts(PROMETHEUS_SETTINGS, texts, problems)
    if ENDPOINT not in texts:
        if texts:
            seen = next(iter(texts.values())).where
            problems.append(Problem("--prometheus-endpoint", "missing", f"there with {seen}"))
        return None
    nested = nest(PROMETHEUS_SETTINGS, stated)
    found = with_stated(PrometheusSettings(), Field("", "", None), nested)
    problems.extend(prometheus_conflicts(found))
    return found
