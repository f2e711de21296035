"""Objects of the API server into what the agent keeps: what is left out, what is refused."""

import json
from typing import Any

import msgspec
import pytest

from slackwater.contract.kubernetes_pod import MIRROR, MirrorClaim, Phase
from slackwater.contract.node_report import ANNOTATION
from slackwater.model.cgroup import Tier
from slackwater.model.problem import DocumentName, InvalidError
from slackwater.observation.objects import cluster_kinds as readers
from tests.unit.observation.objects.feeds import Cluster

GOOD_SETTINGS = "{apiVersion: slackwater.io/v1, kind: AgentSettings, spec: {}}"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def raw(document: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(document).encode())


def item(kind_fields: dict[str, Any] | None = None, **metadata: Any) -> msgspec.Raw:
    """As in a list: without apiVersion and kind."""
    base = {"name": "web", "namespace": "shop", "uid": "11111111-2222-4333-8444-000000000001"}
    return raw({"metadata": base | metadata, **(kind_fields or {})})


def test_an_item_of_a_list_is_a_pod() -> None:
    spec = {"nodeName": "here", "containers": [{"name": "c"}]}
    status = {"phase": "Running", "qosClass": "BestEffort"}
    annotations = {LAST_APPLIED: "{" * 1000, "volcano.sh/qos-level": "BE"}
    pod = readers.pod_of(item({"spec": spec, "status": status}, annotations=annotations))
    assert (pod.namespace, pod.name, pod.node_name) == ("shop", "web", "here")
    assert (pod.phase, pod.tier) == (Phase.RUNNING, Tier.BESTEFFORT)
    assert pod.annotations == {"volcano.sh/qos-level": "BE"}


def test_what_confirms_a_static_pod_is_kept() -> None:
    owner = {"kind": "Node", "name": "here", "uid": "u-1", "controller": True}
    pod = readers.pod_of(
        item({"spec": {}}, annotations={MIRROR: "0" * 32}, ownerReferences=[owner])
    )
    assert pod.mirror == MirrorClaim("0" * 32, "here", "u-1")
    assert readers.node_of(item(name="here", uid="u-1")).node.uid == "u-1"


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"uid": ""}, "API server: Pod shop/web: metadata.uid is missing"),
        (
            {"annotations": {MIRROR: "x"}, "ownerReferences": 7},
            "API server: Pod shop/web: metadata.ownerReferences is 7, but must be a list",
        ),
        ({"labels": {"app": 7}}, "API server: Pod shop/web: metadata.labels.app is 7"),
    ],
)
def test_an_absurd_pod_is_one_sentence_that_names_it(metadata: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidError) as caught:
        readers.pod_of(item({"spec": {}}, **metadata))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("text", [b"[]", b"7", b"null"])
def test_what_is_no_object_is_refused(text: bytes) -> None:
    for read in (readers.pod_of, readers.node_of, readers.colocation_of, readers.settings_of):
        with pytest.raises(InvalidError, match="API server is no object"):
            read(msgspec.Raw(text))


def node(report: str, **annotations: str) -> msgspec.Raw:
    condition = {"type": "SlackwaterActing", "status": "True", "reason": "Acting", "message": "m"}
    status = {"allocatable": {"cpu": "4"}, "conditions": [condition]}
    return raw(
        {
            "metadata": {"name": "here", "annotations": {ANNOTATION: report, **annotations}},
            "status": status,
        }
    )


def test_our_own_report_is_not_part_of_the_node() -> None:
    """Else each of our writes would be news to us."""
    one, other = readers.node_of(node('{"holding": 1}')), readers.node_of(node('{"holding": 2}'))
    assert one.node == other.node
    assert one.status_patch is not None
    assert other.status_patch is not None
    assert (one.status_patch.report.holding, other.status_patch.report.holding) == (1, 2)
    assert readers.node_of(node("{}", other="x")).node.annotations == {"other": "x"}


def test_taint_and_condition_of_interference_are_kept_apart_from_the_node() -> None:
    taint = {"key": "interference.crane.io", "effect": "PreferNoSchedule"}
    note = {"slackwater.io/interference": "taint"}
    with_taint = readers.node_of(item({"spec": {"taints": [taint]}}, annotations=note))
    assert with_taint.node == readers.node_of(item()).node
    assert with_taint.interference.shown.effect == "PreferNoSchedule"
    assert with_taint.interference.owns_taint


A_MAP = DocumentName("", "ConfigMap", "shop", "a-map")


def config_map(key: str, text: str) -> msgspec.Raw:
    return item({"data": {key: text}}, name="a-map", uid="u-1")


@pytest.mark.parametrize("text", ['{"cpuThrottlingConfig": {"enable": true}}',
                                  "cpuThrottlingConfig: {enable: true}"])  # fmt: skip
def test_volcanos_configuration_is_json_or_yaml(text: str) -> None:
    seen = readers.colocation_of(config_map("colocation-config", text))
    assert (seen.uid, seen.problem) == ("u-1", None)
    assert seen.value is not None
    assert seen.value.everywhere["cpuThrottlingConfig", "enable"].value is True


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("colocation-config", '{"globalConfig": ', "ConfigMap shop/a-map is "),
        ("colocation-config", "[]", "ConfigMap shop/a-map is a list, but must be a mapping"),
        ("else", "{}", "ConfigMap shop/a-map: data.colocation-config is missing"),
        (
            "colocation-config",
            '{"globalConfig": {"cpuThrottlingConfig": {"enable": "yes"}}}',
            "ConfigMap shop/a-map: globalConfig.cpuThrottlingConfig.enable is 'yes', but must be",
        ),
    ],
)
def test_a_wrong_configuration_keeps_its_uid(key: str, text: str, said: str) -> None:
    seen = readers.colocation_of(config_map(key, text))
    assert (seen.uid, seen.value) == ("u-1", None)
    assert seen.problem is not None
    assert seen.problem.sentence().startswith(said)
    assert seen.problem.about == A_MAP


HEAD = "apiVersion: slackwater.io/v1\nkind: AgentSettings\n"


def test_our_settings() -> None:
    text = f"{HEAD}spec: {{bestEffortShare: {{enabled: true, threshold: 70}}}}"
    seen = readers.settings_of(config_map("settings.yaml", text))
    assert seen.value is not None
    assert seen.value.policies["best_effort_share"].threshold == 70
    assert seen.problem is None


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("settings", HEAD, "ConfigMap shop/a-map: data['settings.yaml'] is missing"),
        ("settings.yaml", "kind: Pod", "ConfigMap shop/a-map: apiVersion is missing"),
        (
            "settings.yaml",
            f"{HEAD}spec: {{bestEffortShare: {{threshold: 0}}}}",
            "ConfigMap shop/a-map: spec.bestEffortShare.threshold is 0",
        ),
        ("settings.yaml", f"{HEAD}spec: {{mood: 1}}", "a key of ConfigMap shop/a-map: spec is"),
    ],
)
def test_wrong_settings_keep_their_uid(key: str, text: str, said: str) -> None:
    seen = readers.settings_of(config_map(key, text))
    assert (seen.uid, seen.value) == ("u-1", None)
    assert seen.problem is not None
    assert seen.problem.sentence().startswith(said), seen.problem
    assert seen.problem.about == A_MAP


def test_a_colocation_configuration() -> None:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "memoryQos": {"highRatio": 90}}
    found = readers.pod_configuration_of(item({"spec": spec}))
    assert (found.namespace, found.name, found.ratios.high) == ("shop", "web", 90)
    wrong = {"selector": {}, "memoryQos": {"highRatio": 900}}
    with pytest.raises(InvalidError, match=r"ColocationConfiguration shop/web: spec\.memoryQos"):
        readers.pod_configuration_of(item({"spec": wrong}))


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ({"settings.yaml": GOOD_SETTINGS, "release": ""}, ""),
        ({"settings.yaml": GOOD_SETTINGS}, ""),
        ({"settings.yaml": GOOD_SETTINGS, "release": " w1\n"}, "w1"),
        # What is wrong with the settings must not keep their values in place.
        ({"settings.yaml": "spec: [", "release": "w1"}, "w1"),
        ({"release": "x" * 100}, "x" * 64),
    ],
)
def test_the_word_of_a_release_is_read_beside_the_settings(data: dict[str, str], word: str) -> None:
    cluster = Cluster()
    cluster.hand("settings").put({})
    assert cluster.objects.release_asked() is None
    seen = readers.settings_of(item({"data": data}, name="slackwater-agent"))
    cluster.hand("settings").put({"ns/slackwater-agent": seen})
    assert cluster.objects.release_asked() == word
