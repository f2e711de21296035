"""The kinds that we define, on a real API server: what it takes, keeps, adds, refuses and shows."""

import copy
import functools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from slackwater.contract import resources
from slackwater.contract.crane.fields import EnsuranceStatus, PolicyCondition, Truth
from slackwater.contract.crane.metrics import METRICS
from slackwater.contract.crd import DEFINITIONS, Definition
from slackwater.contract.resources import Resource
from slackwater.kube.access import Access
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.credentials.discovery import find_access
from slackwater.model.problem import InvalidError
from tests.cluster.kube_world import serves
from tests.unit.contract.crane import documents as whole
from tests.unit.contract.crane.documents import (
    ABSENT,
    METRIC_SOURCES,
    READERS,
    WHOLE,
    Document,
    Wrong,
    spoilt,
    written,
)
from tests.unit.contract.crane.wrong_documents import ALL_WRONG, fields, schemas
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for
from tools.definitions import FOLDER

MANIFESTS = Path(__file__).parent / "manifests"
CHART = Path(__file__).parents[2] / FOLDER
STATUS = EnsuranceStatus(
    1,
    "throttle when cpu_total_usage > 6000, twice in a row; back after 2 below",
    3,
    (
        PolicyCondition("Valid", Truth.TRUE, "Valid", "", "2026-11-17T09:00:00Z", 1),
        PolicyCondition("Enforced", Truth.FALSE, "NotYet", "not yet", "2026-11-17T09:00:00Z", 1),
    ),
)
ENSURANCE = tuple(each for each in DEFINITIONS if each.kind.group == "ensurance.crane.io")


def spoken(kind: Resource) -> str:
    return f"{kind.plural}.{kind.group}"


@pytest.fixture(scope="module")
def applied(control_plane: ControlPlane) -> ControlPlane:
    """With our definitions, established."""
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART))
    names = [f"crd/{each.name}" for each in DEFINITIONS]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=300s", *names)
    return control_plane


@pytest.fixture(scope="module")
def client(applied: ControlPlane) -> Client:
    access = find_access({}, str(applied.kubeconfig()))
    assert isinstance(access, Access)
    made = Client(access, "slackwater-test")
    for each in DEFINITIONS:
        # Established comes a moment before the last server loop serves the kind.
        served = functools.partial(serves, made, each.kind)
        wait_for(f"{each.name} to be served", served)
    return made


@pytest.fixture
def tidy(client: Client) -> Iterator[None]:
    """Nothing of our kinds before or after: they are in no namespace of the test's own."""
    yield
    for kind in WHOLE:
        place = "default" if kind.namespaced else ""
        for name in client.list(kind, _name, namespace=place).items:
            client.delete(kind, name, place)


class _Metadata(msgspec.Struct, frozen=True):
    name: str


class _Named(msgspec.Struct, frozen=True):
    metadata: _Metadata


def _name(raw: msgspec.Raw) -> str:
    return msgspec.json.decode(raw, type=_Named).metadata.name


def created(client: Client, kind: Resource, document: Document) -> Document:
    place = "default" if kind.namespaced else ""
    made: Document = msgspec.json.decode(client.create(kind, document, place))
    return made


def content(document: Document) -> Document:
    return {k: v for k, v in document.items() if k not in ("metadata", "status")}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each.name)
def test_definitions_are_established(applied: ControlPlane, definition: Definition) -> None:
    """Every schema is structural, and every rule of it compiles and is cheap enough."""
    found = applied.get("crd", definition.name)
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert conditions.pop("Established") == "True"
    assert conditions.pop("NamesAccepted") == "True"
    assert conditions.pop("NonStructuralSchema", "False") == "False"
    assert conditions.pop("KubernetesAPIApprovalPolicyConformant", "True") == "True"
    assert conditions == {}


def test_definitions_applied_again_change_nothing(applied: ControlPlane) -> None:
    """So that a GitOps controller has peace: what the server stores is what the file says."""
    before = [applied.get("crd", each.name)["metadata"] for each in DEFINITIONS]
    applied.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART))
    after = [applied.get("crd", each.name)["metadata"] for each in DEFINITIONS]
    assert [each["resourceVersion"] for each in after] == [
        each["resourceVersion"] for each in before
    ]


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("kind", WHOLE, ids=spoken)
def test_whole_objects_keep_every_value(client: Client, kind: Resource) -> None:
    made = created(client, kind, WHOLE[kind])
    assert content(made) == content(WHOLE[kind])
    assert READERS[kind](made, "server").metadata.generation in (0, 1)


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("source", METRIC_SOURCES, ids=str)
def test_a_metric_may_have_any_one_source(client: Client, source: Document) -> None:
    kind = resources.ENSURANCE_METRICS
    made = created(client, kind, spoilt(WHOLE[kind], ("spec", "source"), source))
    assert made["spec"]["source"] == {"maxAgeSeconds": 60, **source}


@pytest.mark.usefixtures("tidy")
def test_a_rule_may_name_a_metric_that_is_not_there_yet(client: Client) -> None:
    """The API server cannot see other objects; the condition Valid says what is missing."""
    path = ("spec", "rules", 0, "metricRule", "name")
    for name in ("queue-depth", "example.com/batch-cpu"):
        document = spoilt(WHOLE[resources.NODE_QOS], path, name)
        document["metadata"]["name"] = "about-" + name.rpartition("/")[2]
        created(client, resources.NODE_QOS, document)


@pytest.mark.usefixtures("tidy", "client")
@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_manifests_of_the_seeds_apply_unchanged(
    applied: ControlPlane, namespace: str, way: tuple[str, ...]
) -> None:
    paths = sorted(MANIFESTS.glob("*.yaml"))
    assert len(paths) == 7
    for path in paths:
        applied.kubectl("apply", *way, "-f", str(path))
        document = yaml.safe_load(path.read_text())
        kind, name = document["kind"], document["metadata"]["name"]
        stored = applied.get(kind, name)
        key = "data" if kind == "ConfigMap" else "spec"
        assert _kept(document[key], stored[key])
        if way == ():
            assert "unchanged" in applied.kubectl("apply", "-f", str(path))
    applied.kubectl("delete", "-f", str(MANIFESTS / "prediction-template.yaml"))


def _kept(said: Any, stored: Any) -> bool:
    """Everything that was said is there; the server may have added defaults."""
    if isinstance(said, dict):
        return isinstance(stored, dict) and all(
            key in stored and _kept(each, stored[key]) for key, each in said.items()
        )
    if isinstance(said, list):
        return len(said) == len(stored) and all(map(_kept, said, stored))
    return bool(said == stored)


@pytest.mark.usefixtures("tidy")
def test_the_seed_over_an_object_of_cranes_time(client: Client, applied: ControlPlane) -> None:
    """Crane's own definition made restoreThreshold 1 of the seed's restoredThreshold 2."""
    path = MANIFESTS / "throttle-policy.yaml"
    old = yaml.safe_load(path.read_text())
    rule = old["spec"]["objectiveEnsurances"][0]
    del rule["restoredThreshold"]
    created(
        client, resources.NODE_QOS_ENSURANCE_POLICIES, spoilt(old, _RULE, {**rule, _RESTORE: 1})
    )
    applied.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path))
    found = applied.get("nep", "waterline2")["spec"]["objectiveEnsurances"][0]
    assert found["restoredThreshold"] == 2
    assert _RESTORE not in found


_RESTORE = "restoreThreshold"
_RULE = ("spec", "objectiveEnsurances", 0)


@pytest.mark.parametrize("wrong", ALL_WRONG, ids=lambda wrong: wrong.id)
def test_each_wrong_field_is_refused_by_name(client: Client, wrong: Wrong) -> None:
    with pytest.raises(HttpStatusError) as caught:
        created(client, wrong.kind, wrong.document())
    assert caught.value.status == 422
    # A rule in CEL writes a mapping's key in brackets, the rest of the server after a dot.
    assert wrong.named in re.sub(r"\[([a-z]+)\]", r".\1", caught.value.message)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            Wrong(resources.NODE_QOS, ("spec", "rules", 0, "name"), "aaa.bbb"),
            "is 'aaa.bbb', but must be a DNS label: lower-case letters, digits and '-'",
        ),
        (
            Wrong(resources.NODE_QOS, ("metadata", "name"), "aaa.bbb"),
            "is 'aaa.bbb', but must be a DNS label",
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "rules", 0, "metricRule", "name"), "cpu"),
            "each metricRule.name must be one of cpu_total_usage, cpu_total_utilization, ",
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "rules", 0, "metricRule", "value"), "0"),
            "value must be a quantity above 0",
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "rules", 0, "restoredThreshold"), 4),
            "must be the same as restoreThreshold, of which it is another spelling",
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "rules", 2), whole.RULE),
            "each name must be there only once",
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "nodeQualityProbe"), {}),
            "nodeQualityProbe must have exactly one of httpGet and nodeLocalGet",
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "nodeQualityProbe"), {"httpGet": {"port": "web"}}),
            "httpGet.port must be a number: a node's ports have no names",
        ),
        (
            Wrong(resources.AVOIDANCE_ACTIONS, ("spec", "coolDownSeconds"), 0),
            "spec.coolDownSeconds in body should be greater than or equal to 1",
        ),
        (
            Wrong(
                resources.AVOIDANCE_ACTIONS, ("spec", "throttle", "cpuThrottle", "minCPURatio"), 101
            ),
            "minCPURatio in body should be less than or equal to 100",
        ),
        (
            Wrong(
                resources.TIME_SERIES_PREDICTIONS, ("spec", "predictionMetrics", 0, "type"), "Query"
            ),
            'supported values: "ResourceQuery", "MetricQuery", "ExpressionQuery"',
        ),
    ],
    ids=lambda each: each.id if isinstance(each, Wrong) else "",
)
def test_sentences_of_the_server(client: Client, wrong: Wrong, sentence: str) -> None:
    with pytest.raises(HttpStatusError) as caught:
        created(client, wrong.kind, wrong.document())
    assert sentence in caught.value.message


@pytest.mark.usefixtures("tidy")
def test_wrong_changes_are_refused_too(client: Client) -> None:
    """Crane's webhook compares an update with itself and lets everything through."""
    created(client, resources.AVOIDANCE_ACTIONS, whole.ACTION)
    created(client, resources.NODE_QOS, whole.NODE_QOS)
    for kind, document, patch in (
        (resources.AVOIDANCE_ACTIONS, whole.ACTION, {"spec": {"coolDownSeconds": -1}}),
        (resources.NODE_QOS, whole.NODE_QOS, {"spec": {"rules": [whole.RULE, whole.RULE]}}),
    ):
        with pytest.raises(HttpStatusError) as caught:
            client.patch(kind, document["metadata"]["name"], patch, kind=PatchKind.MERGE)
        assert caught.value.status == 422


@pytest.mark.usefixtures("tidy")
def test_defaults_are_filled_in(client: Client) -> None:
    action = created(
        client, resources.AVOIDANCE_ACTIONS, {**whole.ACTION, "spec": {"coolDownSeconds": None}}
    )
    assert action["spec"] == {"coolDownSeconds": 300}
    rule = {"name": "a", "actionName": "b", "metricRule": {"name": "memory_total", "value": 1}}
    spec = {"nodeQualityProbe": {"nodeLocalGet": {}}, "rules": [rule]}
    policy = created(client, resources.NODE_QOS, {**whole.NODE_QOS, "spec": spec})["spec"]
    assert policy["nodeQualityProbe"] == {"nodeLocalGet": {"localCacheTTLSeconds": 60}}
    assert policy["rules"] == [{**rule, "avoidanceThreshold": 1, "strategy": "None"}]
    topology = spoilt(whole.CRANE_TOPOLOGY, ("craneManagerPolicy", "topologyManagerPolicy"), ABSENT)
    made = created(client, resources.CRANE_TOPOLOGIES, topology)
    assert made["craneManagerPolicy"]["topologyManagerPolicy"] == "SingleNUMANodePodLevel"


@pytest.mark.usefixtures("tidy")
def test_unknown_fields_go(client: Client) -> None:
    made = created(client, resources.AVOIDANCE_ACTIONS, spoilt(whole.ACTION, ("spec", "more"), 1))
    assert "more" not in made["spec"]


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("definition", ENSURANCE, ids=lambda each: each.name)
def test_status_is_the_managers(client: Client, definition: Definition) -> None:
    kind = definition.kind
    status: Document = msgspec.json.decode(msgspec.json.encode({"status": STATUS}))
    made = created(client, kind, {**WHOLE[kind], **status})
    assert "status" not in made
    name = made["metadata"]["name"]
    answer = client.apply(kind, name, copy.deepcopy(status), manager="test", subresource="status")
    told = msgspec.json.decode(answer)
    assert told["status"] == status["status"]
    assert told["metadata"]["generation"] == 1
    assert READERS[kind](told, "server").status == STATUS
    bad = spoilt(status, ("status", "conditions", 0, "status"), "Maybe")
    with pytest.raises(HttpStatusError, match=r"status.conditions\[0\].status"):
        client.apply(kind, name, bad, manager="test", subresource="status")


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize(
    ("short", "kind", "heads", "shown"),
    [
        ("nodeqos", resources.NODE_QOS, "DOES NODES VALID ENFORCED TRIGGERED AGE", STATUS.summary),
        ("nq", resources.NODE_QOS, "DOES NODES VALID ENFORCED TRIGGERED AGE", "3"),
        (
            "nep",
            resources.NODE_QOS_ENSURANCE_POLICIES,
            "DOES NODES VALID ENFORCED TRIGGERED AGE",
            STATUS.summary,
        ),
        ("avoid", resources.AVOIDANCE_ACTIONS, "DOES VALID ENFORCED AGE", STATUS.summary),
        ("em", resources.ENSURANCE_METRICS, "DOES VALID ENFORCED AGE", STATUS.summary),
        ("podqos", resources.POD_QOS, "DOES VALID ENFORCED AGE", "True"),
        ("pq", resources.POD_QOS, "DOES VALID ENFORCED AGE", "False"),
    ],
)
def test_columns_of_policies(
    client: Client, applied: ControlPlane, short: str, kind: Resource, heads: str, shown: str
) -> None:
    name = created(client, kind, WHOLE[kind])["metadata"]["name"]
    status = {"status": msgspec.to_builtins(STATUS)}
    client.apply(kind, name, status, manager="test", subresource="status")
    head, row = applied.kubectl("get", short).splitlines()
    assert head.split() == ["NAME", *heads.split()]
    assert row.startswith(name)
    assert shown in row


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize(
    ("asked", "kind", "row"),
    [
        (
            ("tsp",),
            resources.TIME_SERIES_PREDICTIONS,
            "noderesource-node1 node1.example.com Node 3600",
        ),
        (
            ("noderesourcetopologies.topology.crane.io",),
            resources.CRANE_TOPOLOGIES,
            "node1.example.com Static SingleNUMANodePodLevel",
        ),
        (("nrt",), resources.CRANE_TOPOLOGIES, "node1.example.com Static SingleNUMANodePodLevel"),
        (
            ("node-res-topo",),
            resources.NODE_TOPOLOGIES,
            'node1.example.com ["SingleNUMANodePodLevel"] node-0',
        ),
        (("nep", "-o", "wide"), resources.NODE_QOS_ENSURANCE_POLICIES, "cpu_total_usage throttle"),
        (("avoid", "-o", "wide"), resources.AVOIDANCE_ACTIONS, "120 throttle, then evict"),
        (("pq", "-o", "wide"), resources.POD_QOS, '["throttle","eviction"]'),
    ],
)
def test_columns(
    client: Client, applied: ControlPlane, asked: tuple[str, ...], kind: Resource, row: str
) -> None:
    created(client, kind, WHOLE[kind])
    shown = applied.kubectl("get", *asked).splitlines()[1]
    assert row in " ".join(shown.split())


@pytest.mark.usefixtures("tidy")
def test_all_of_them_are_one_category(client: Client, applied: ControlPlane) -> None:
    for kind, document in WHOLE.items():
        created(client, kind, document)
    shown = applied.kubectl("get", "slackwater", "-o", "name").split()
    assert len(shown) == len(WHOLE)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("nodeqos.spec.rules.metricRule.value", "The rule is triggered while the metric is above"),
        ("nodeqos.spec.netLimits", "Accepted, has no effect"),
        ("avoid.spec.throttle.cpuThrottle.stepCPURatio", "one step takes away"),
        ("podqos", "Which pods an AvoidanceAction may touch"),
        ("tsp.spec.predictionMetrics.algorithm.dsp", "Finds a period in the past"),
        ("nep.status.conditions", "Valid: nothing in it is wrong or missing"),
    ],
)
def test_kubectl_explains(applied: ControlPlane, path: str, told: str) -> None:
    def explained() -> str:
        # The server publishes schemas a moment after it serves the kind.
        return applied.kubectl("explain", path)

    assert told in " ".join(wait_for(f"{path} to be published", explained).split())


@pytest.mark.usefixtures("tidy")
def test_topology_of_nodes_in_both_versions(client: Client, applied: ControlPlane) -> None:
    """Koordinator writes v1alpha1, NFD v1alpha2; neither loses what the other said."""
    older = created(client, resources.NODE_TOPOLOGIES, whole.NODE_TOPOLOGY)
    name = older["metadata"]["name"]
    newer = applied.get("noderesourcetopologies.v1alpha2.topology.node.k8s.io", name)
    assert newer["apiVersion"] == "topology.node.k8s.io/v1alpha2"
    assert newer["zones"] == older["zones"]
    assert newer["attributes"] == whole.NODE_TOPOLOGY["attributes"]
    assert newer["topologyPolicies"] == older["topologyPolicies"]
    bare = spoilt(whole.NODE_TOPOLOGY, ("topologyPolicies",), ABSENT)
    with pytest.raises(HttpStatusError, match="topologyPolicies"):
        created(client, resources.NODE_TOPOLOGIES, bare)


@pytest.mark.usefixtures("tidy")
def test_the_largest_objects_cost_the_server_little_enough(client: Client) -> None:
    """Beside the estimate at admission of a definition there is a budget for each object."""
    values = [f"v{count:061}" for count in range(48)]
    expression = {"key": f"{'d' * 253}/{'k' * 63}", "operator": "In", "values": values}
    selector = {"matchExpressions": [expression] * 16}
    metric = {"name": list(METRICS)[-1], "value": "9" * 15, "selector": selector}
    rules = [
        {**whole.RULE, "name": f"r{count:062}", "actionName": "a" * 63, "metricRule": metric}
        for count in range(24)
    ]
    document = spoilt(spoilt(whole.NODE_QOS, ("spec", "rules"), rules), _SELECTOR, selector)
    assert len(json.dumps(document)) > 1_000_000
    assert len(created(client, resources.NODE_QOS, document)["spec"]["rules"]) == 24


_SELECTOR = ("spec", "selector")

#: What tends to be written, and what only just may or may not be.
VALUES: tuple[object, ...] = (
    *(None, True, 0, 1, -1, 8, 101, 2**31 - 1, 2**31, 2**63 - 1, 1.5),
    *("", "a", "A", "a.b", "-", "0", "-1", "0.5", "1e3", "1e300", "4k", "1Ki", "Ki", ".5", "5."),
    *("60s", "3d", "d", "1.5h", "1µs", "é" * 64, "x" * 64, "x\n", "1-2", "-1--2", "1--1", " 1"),
    *("None", "In", "HTTP", "cpu", "example.com/x", "a/b/c", "Inf"),
    *([], {}, [1], ["a"], {"a": "b"}, {"a": 1}, [{}], {"name": "a"}),
)


@pytest.mark.parametrize("kind", WHOLE, ids=spoken)
def test_the_server_and_the_contract_agree(client: Client, kind: Resource) -> None:
    """Whatever stands anywhere: both take it, or both refuse it."""
    chance = random.Random(spoken(kind))  # noqa: S311 - the same each time
    places = [path for path, _ in fields(schemas()[kind], WHOLE[kind], ())]
    for _ in range(60):
        path, value = chance.choice(places), chance.choice(VALUES)
        document = spoilt(WHOLE[kind], path, value)
        verdicts = (_is_read(kind, document), _is_stored(client, kind, document))
        assert verdicts in ((True, True), (False, False)), f"{written(path)}: {value!r}"


def _is_read(kind: Resource, document: Document) -> bool:
    try:
        READERS[kind](document, "file")
    except InvalidError:
        return False
    return True


def _is_stored(client: Client, kind: Resource, document: Document) -> bool:
    try:
        made = created(client, kind, document)
    except HttpStatusError:
        return False
    client.delete(kind, made["metadata"]["name"], made["metadata"].get("namespace", ""))
    return True
