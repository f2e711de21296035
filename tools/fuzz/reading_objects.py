"""The rows of the table for objects: of files, as plain values, and of the API server, as JSON."""

from collections.abc import Callable, Generator, Mapping
from typing import Any

import msgspec

from slackwater.contract import ensurance_metric, kubernetes, kubernetes_pod, topology
from slackwater.contract.crane import fields, node_forecast, objects
from slackwater.contract.crane.ensurance_set import read_ensurance
from slackwater.contract.crane.node_reserve import read_reserve
from slackwater.contract.decoding import decode_struct
from slackwater.contract.document import Field
from slackwater.contract.ensurance_plugin import read_plugin_attributes
from slackwater.contract.koordinator import normalization, slo_config
from slackwater.contract.koordinator.topology import read_reported_info, read_seen_topology
from slackwater.contract.label_selector import flaw, read_selector
from slackwater.contract.node_interference import read_interference
from slackwater.contract.node_offer import read_seen_offer
from slackwater.contract.node_report import read_status_patch
from slackwater.contract.pod_resources import read_amounts, read_requests
from slackwater.contract.volcano.colocation_config import read_config
from slackwater.contract.volcano.pod import read_colocation_configuration
from slackwater.contract.workload_objects import OwnedPod
from slackwater.http.connection import HttpRequest
from slackwater.http.errors import UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import all_pages
from slackwater.kube.informer import decode_name
from slackwater.kube.stream import WatchStream
from slackwater.manager import policy_object, prediction_object
from slackwater.manager.scheduled_pod import read_scheduled_pod
from slackwater.manager.slo_config_memory import read_slo_config_object
from slackwater.manager.webhook.certificate_rotation import decode_secret
from slackwater.manager.webhook.review import answer_review
from slackwater.model.problem import InvalidError, Problem
from slackwater.observation.objects import cluster
from slackwater.observation.objects.pod_decoding import decode_pod
from slackwater.policies.catalog import SETTINGS
from slackwater.prediction.parameters import read_parameters
from slackwater.rebalancer.sources.cluster_reader import read_pod
from slackwater.report.fetch_objects import read_listed_node
from slackwater.report.pod_owners import read_owned_pod
from slackwater.settings import rebalancer_document
from slackwater.simulation.demand import Chance, read_demand
from slackwater.simulation.scenario_file import scenario_in
from slackwater.status import api_objects
from tools.fuzz import seeds
from tools.fuzz.mutation import Mutator
from tools.fuzz.running import Reader

#: What kube.informer keeps as an object's problem.
UNREADABLE = (ValueError, msgspec.MsgspecError, RecursionError)
#: Bytes.
_PIECE = 1024
_SOURCE = "a file"


def _documents(
    name: str,
    call: Callable[[Any], object],
    *found: object,
    covers: tuple[str, ...],
    contract: tuple[type[BaseException], ...] = (InvalidError,),
) -> Reader:
    return Reader(name, call, found, Mutator.document, covers, contract)


def _raws(
    name: str,
    call: Callable[[Any], object],
    *found: object,
    covers: tuple[str, ...],
    contract: tuple[type[BaseException], ...] = UNREADABLE,
) -> Reader:
    return Reader(
        name, lambda data: call(msgspec.Raw(data)), found, Mutator.encoded, covers, contract
    )


def _named(read: Callable[[object, str], object]) -> Callable[[object], object]:
    return lambda document: read(document, _SOURCE)


def _texts(document: object) -> Mapping[str, str]:
    """As a reader gets them: checked to be texts, and nothing else."""
    found = document if isinstance(document, dict) else {}
    return {
        key: text for key, text in found.items() if isinstance(key, str) and isinstance(text, str)
    }


def _config_map(data: object) -> kubernetes.ConfigMap:
    return kubernetes.ConfigMap("ns", "config", dict(_texts(data)))


def _selector(document: object) -> object:
    found = read_selector(Field(_SOURCE, "spec", document))
    return flaw(found), found.selects({"a": "b"})


def _settings_of_rebalancer(document: object) -> object:
    problems: list[Problem] = []
    found = rebalancer_document.read_file(document, _SOURCE, problems)
    if problems:
        raise InvalidError(*problems)
    return found


def _requests(document: object) -> object:
    limits = read_amounts(Field(_SOURCE, "limits", document))
    return read_requests(Field(_SOURCE, "requests", document), limits)


def _parameters(document: object) -> object:
    read = objects.read_time_series_prediction(document, _SOURCE)
    return [read_parameters(each.algorithm, "spec") for each in read.spec.prediction_metrics]


def file_objects() -> tuple[Reader, ...]:
    """Objects as a YAML file has them: dates and bytes too, and keys that are no texts."""
    metrics = seeds.example_documents("ensurance-metric/*.yaml", "EnsuranceMetric")
    demand = {"sum": [{"steady": "1"}, {"square": {"low": 0, "high": 2, "period": "10s"}}]}
    plugin = {
        "name": "a/b", "measures": True, "action_priority": 3, "sortable": True,
        "throttleable": True, "throttle_quantified": True, "evictable": True,
        "evict_quantified": True,
    }  # fmt: skip
    return (
        _documents("pod", _named(kubernetes_pod.read_pod), seeds.POD,
                   covers=("contract.kubernetes_pod.read_pod",)),
        _documents("node", _named(kubernetes.read_node), seeds.NODE,
                   covers=("contract.kubernetes.read_node", "contract.kubernetes.read_head")),
        _documents("config-map", _named(kubernetes.read_config_map), seeds.CONFIG_MAP,
                   covers=("contract.kubernetes.read_config_map",)),
        _documents("node-as-written", _node_as_written, seeds.NODE, contract=(), covers=(
            "contract.node_interference.read_interference", "contract.node_offer.read_seen_offer",
            "contract.node_report.read_status_patch")),
        _documents("node-reserve", lambda each: read_reserve(_texts(each)),
                   seeds.NODE["metadata"]["annotations"], contract=(),
                   covers=("contract.crane.node_reserve.read_reserve",)),
        _documents("node-topology", _named(topology.read_node_topology), seeds.TOPOLOGY,
                   covers=("contract.topology.read_node_topology",)),
        _documents("crane-topology", _named(topology.read_crane_topology), seeds.CRANE_TOPOLOGY,
                   covers=("contract.topology.read_crane_topology",)),
        _documents("node-qos", _named(objects.read_node_qos), seeds.NODE_QOS,
                   *seeds.example_documents("*/*.yaml", "NodeQOS"),
                   covers=("contract.crane.objects.read_node_qos",)),
        _documents("ensurance-policy", _named(objects.read_node_qos_ensurance_policy),
                   seeds.ENSURANCE_POLICY,
                   covers=("contract.crane.objects.read_node_qos_ensurance_policy",)),
        _documents("avoidance-action", _named(objects.read_avoidance_action), seeds.ACTION,
                   covers=("contract.crane.objects.read_avoidance_action",)),
        _documents("pod-qos", _named(objects.read_pod_qos), seeds.POD_QOS,
                   *seeds.example_documents("*/*.yaml", "PodQOS"),
                   covers=("contract.crane.objects.read_pod_qos",)),
        _documents("prediction", _named(node_forecast.read_node_prediction), seeds.PREDICTION,
                   covers=("contract.crane.node_forecast.read_node_prediction",
                           "contract.crane.node_forecast.read_predicted_use",
                           "contract.crane.objects.read_time_series_prediction")),
        _documents("prediction-template", _named(objects.read_prediction_template), seeds.TEMPLATE,
                   covers=("contract.crane.objects.read_prediction_template",)),
        _documents("prediction-parameters", _parameters, seeds.PREDICTION,
                   covers=("prediction.parameters.read_parameters",
                           "prediction.parameters.read_seconds")),
        _documents("ensurance-metric", _named(ensurance_metric.read_ensurance_metric), *metrics,
                   covers=("contract.ensurance_metric.read_ensurance_metric",)),
        _documents("ensurance", lambda each: read_ensurance("PodQOS", each, _SOURCE), seeds.POD_QOS,
                   covers=("contract.crane.ensurance_set.read_ensurance",)),
        _documents("ensurance-plugin", _plugin, plugin,
                   covers=("contract.ensurance_plugin.read_plugin_attributes",)),
        _documents("pod-configuration", _named(read_colocation_configuration),
                   seeds.POD_CONFIGURATION,
                   covers=("contract.volcano.pod.read_colocation_configuration",
                           "contract.volcano.pod.read_ratios")),
        _documents("colocation-config", _named(read_config), msgspec.json.decode(seeds.COLOCATION),
                   covers=("contract.volcano.colocation_config.read_config",)),
        _documents("label-selector", _selector, seeds.POD_CONFIGURATION["spec"]["selector"],
                   {"matchLabels": {"a": "b"}},
                   covers=("contract.label_selector.read_selector",)),
        _documents("pod-amounts", _requests,
                   seeds.POD["spec"]["containers"][0]["resources"]["limits"],
                   covers=("contract.pod_resources.read_amounts",
                           "contract.pod_resources.read_requests")),
        _documents("normalization",
                   lambda each: normalization.read_normalization(_config_map(each)),
                   seeds.CONFIG_MAP["data"],
                   covers=("contract.koordinator.normalization.read_normalization",
                           "contract.koordinator.node_strategy.read_strategies")),
        _documents("amplification",
                   lambda each: normalization.read_amplification(_config_map(each)),
                   seeds.CONFIG_MAP["data"],
                   covers=("contract.koordinator.normalization.read_amplification",)),
        _documents("slo-config", _slo_config, seeds.CONFIG_MAP["data"], contract=(),
                   covers=("contract.koordinator.slo_config.read_slo_config",)),
        _documents("basic-info",
                   lambda each: normalization.read_basic_info(_texts(each), "worker"),
                   seeds.TOPOLOGY["metadata"]["annotations"], contract=(),
                   covers=("contract.koordinator.normalization.read_basic_info",)),
        _documents("settings", lambda each: SETTINGS.read_file(each, _SOURCE),
                   *seeds.example_documents("node/settings.yaml"),
                   covers=("settings.agent_document.SettingsSchema.read_file",
                           "settings.agent_document.SettingsSchema.read_spec",
                           "contract.decoding.read_over", "contract.decoding.read_struct")),
        _documents("rebalancer-settings", _settings_of_rebalancer,
                   *seeds.example_documents("rebalancer/workloads.yaml"),
                   covers=("settings.rebalancer_document.read_file",)),
        _documents("scenario", lambda each: scenario_in(each, _SOURCE),
                   *seeds.example_documents("scenarios/*.yaml"),
                   covers=("simulation.scenario_file.read_scenario",)),
        _documents("demand",
                   lambda each: read_demand(Field(_SOURCE, "cpu", each), Chance("seed")),
                   *_demands(), demand, covers=("simulation.demand.read_demand",)),
        _documents("certificates", lambda each: decode_secret(_texts(each)),
                   {"tls.crt": "YWJj", "tls.key": "YWJj", "ca.crt": "YWJj"}, contract=(),
                   covers=("manager.webhook.certificate_rotation.decode_secret",)),
    )  # fmt: skip


def _demands() -> tuple[object, ...]:
    pods = (
        pod
        for document in seeds.example_documents("scenarios/*.yaml")
        for pod in document["spec"].get("pods", ())
    )
    return tuple(pod["cpu"] for pod in pods if "cpu" in pod) or ("1",)


def _node_as_written(document: object) -> object:
    return read_interference(document), read_seen_offer(document), read_status_patch(document)


def _plugin(document: object) -> object:
    return read_plugin_attributes(document if isinstance(document, dict) else {}, "a/b")


def _slo_config(data: object) -> object:
    return slo_config.read_slo_config(_config_map(data), slo_config.SloConfigName())


def api_objects_as_json() -> tuple[Reader, ...]:
    """What an informer reads. Its errors are an object's problem; the last good value stays."""
    policies = zip(policy_object.READERS, (seeds.ACTION, seeds.NODE_QOS, seeds.ENSURANCE_POLICY,
                                           seeds.POD_QOS, _metric()), strict=True)  # fmt: skip
    of_manager = tuple(
        _raws(f"policy-object-{resource.kind}", policy_object.reader_of(resource), seed,
              covers=())
        for resource, seed in policies
    )  # fmt: skip
    return (
        _raws("api-pod", cluster.pod_of, seeds.POD, covers=()),
        _raws("api-node", cluster.node_of, seeds.NODE, covers=()),
        _raws("api-pod-configuration", cluster.pod_configuration_of, seeds.POD_CONFIGURATION,
              covers=()),
        _raws("api-prediction", cluster.prediction_of, seeds.PREDICTION, covers=()),
        _raws("api-colocation", cluster.colocation_of, seeds.CONFIG_MAP, covers=()),
        _raws("api-settings", cluster.settings_of, seeds.CONFIG_MAP, covers=()),
        _raws("api-name", decode_name, seeds.POD, covers=("kube.informer.decode_name",),
              contract=(UnreachableError,)),
        _raws("scheduled-pod", read_scheduled_pod, seeds.POD,
              covers=("manager.scheduled_pod.read_scheduled_pod",)),
        _raws("report-pod", read_owned_pod, seeds.POD,
              covers=("report.pod_owners.read_owned_pod",)),
        _raws("report-node", read_listed_node, seeds.NODE,
              covers=("report.fetch_objects.read_listed_node",)),
        _raws("slo-config-object", read_slo_config_object, seeds.CONFIG_MAP,
              covers=("manager.slo_config_memory.read_slo_config_object",)),
        _raws("prediction-object", prediction_object.read_prediction_object, seeds.PREDICTION,
              covers=("manager.prediction_object.read_prediction_object",)),
        _raws("template-object", prediction_object.read_template_object, seeds.CONFIG_MAP,
              covers=("manager.prediction_object.read_template_object",)),
        _raws("ensurance-status", fields.read_ensurance_status, seeds.NODE_QOS["status"],
              covers=("contract.crane.fields.read_ensurance_status",)),
        _raws("reported-info", read_reported_info, seeds.TOPOLOGY,
              covers=("contract.koordinator.topology.read_reported_info",)),
        _raws("seen-topology", read_seen_topology, seeds.TOPOLOGY,
              covers=("contract.koordinator.topology.read_seen_topology",)),
        _raws("status-node", api_objects.read_node, seeds.NODE,
              covers=("status.api_objects.read_node",)),
        _raws("status-agent-pod", api_objects.read_agent_pod, seeds.POD,
              covers=("status.api_objects.read_agent_pod",)),
        _raws("status-policy", lambda raw: api_objects.read_judged_policy(raw, "NodeQOS"),
              seeds.NODE_QOS, covers=("status.api_objects.read_judged_policy",)),
        _raws("status-lease", api_objects.read_lease, seeds.LEASE,
              covers=("status.api_objects.read_lease",)),
        Reader("admission-review", answer_review, (seeds.REVIEW,), Mutator.encoded, ()),
        _raws("api-page", _page, {"metadata": {"resourceVersion": "7"}, "items": [seeds.POD]},
              covers=(), contract=(UnreachableError,)),
        _raws("api-event", _event, {"type": "MODIFIED", "object": seeds.POD},
              {"type": "ERROR", "object": {"code": 410, "reason": "Gone", "message": "m"}},
              covers=(), contract=(UnreachableError, HttpStatusError)),
        _raws("decoded-pod", lambda raw: decode_pod(raw, _SOURCE), seeds.POD,
              covers=("observation.objects.pod_decoding.decode_pod",)),
        _raws("owned-pod", lambda raw: read_pod(decode_struct(raw, OwnedPod, _SOURCE)), seeds.POD,
              covers=("rebalancer.sources.cluster_reader.read_pod",), contract=(InvalidError,)),
        *of_manager,
    )  # fmt: skip


def _page(raw: msgspec.Raw) -> object:
    """As it comes from the network: in pieces."""

    def pieces(_token: str) -> Generator[bytes, None, None]:
        content = bytes(raw)
        for start in range(0, len(content), _PIECE):
            yield content[start : start + _PIECE]

    return all_pages(pieces, decode_name, "GET /api/v1/pods")


class _Answer:
    """An answer that has said all that it will say."""

    will_close = True

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read1(self, most: int) -> bytes:
        piece, self._data = self._data[:most], self._data[most:]
        return piece

    def isclosed(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is open."""


def _event(raw: msgspec.Raw) -> object:
    answer: Any = _Answer(bytes(raw) + b"\n")
    call = HttpRequest("GET", "/api/v1/pods")
    return list(WatchStream(answer, answer, call, 90.0, lambda _connection: None))


def _metric() -> object:
    return seeds.example_documents("ensurance-metric/*.yaml", "EnsuranceMetric")[0]
