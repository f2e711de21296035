"""Which policies are on: our own settings, Volcano's configuration, and the node's label."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from slackwater.agent.effective_settings import (
    EffectiveSettings,
    resolve_settings,
    volcano_dialect,
)
from slackwater.contract.crane.ensurance_set import EnsuranceObjects
from slackwater.contract.volcano.node import read_features
from slackwater.model.decision import Act
from slackwater.model.needs import Needs
from slackwater.observation.objects.folder import Folder
from slackwater.observation.objects.object_set import Objects, own_node
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy, SwitchSettings

LABELLED = """
apiVersion: v1
kind: Node
metadata: {name: one, labels: {volcano.sh/oversubscription: "true"}}
status: {allocatable: {cpu: "2"}}
"""
PLAIN = LABELLED.replace('{volcano.sh/oversubscription: "true"}', "{}")
MAYBE = LABELLED.replace('"true"', "maybe")
THROTTLING = "cpuThrottlingConfig: {enable: true, cpuThrottlingThreshold: 70}"
NO_LABEL = (
    'cpuThrottlingConfig is enabled, but the node has no label volcano.sh/oversubscription: "true"'
)
MAYBE_LABEL = (
    "cpuThrottlingConfig is enabled, but the node's label volcano.sh/oversubscription is 'maybe', "
    "which is not true"
)
NEITHER = "neither bestEffortShare.enabled nor cpuThrottlingConfig.enable is true"
OWN = """
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {bestEffortShare: {enabled: true, threshold: 55}}
"""


class OnSettings(SwitchSettings, frozen=True):
    enabled: bool = True


class BoundNames(OnSettings, frozen=True):
    names: tuple[str, ...] = ()


def objects(folder: Path, *documents: str) -> Objects:
    for number, document in enumerate(documents):
        (folder / f"{number}.yaml").write_text(document)
    found = Folder(str(folder)).read()
    assert isinstance(found, Objects)
    return found


def wished(found: Objects, before: EffectiveSettings) -> EffectiveSettings:
    return resolve_settings(found, own_node(found.nodes, "", ""), before, {}, volcano_dialect())


@pytest.mark.parametrize(
    ("name", "host", "chosen"),
    [("", "", "two"), ("one", "two", "one"), ("", "one", "one"), ("three", "one", None)],
)
def test_whose_node_counts(tmp_path: Path, name: str, host: str, chosen: str | None) -> None:
    found = objects(tmp_path, PLAIN, PLAIN.replace("name: one", "name: two"))
    node = own_node(found.nodes, name, host)
    assert (node.name if node else None) == chosen


@pytest.mark.parametrize(
    ("documents", "threshold"),
    [
        ((), None),
        ((THROTTLING,), None),  # Volcano's dialect needs the label
        ((THROTTLING, PLAIN), None),
        ((THROTTLING, LABELLED), 70),
        ((THROTTLING.replace("true", "false"), LABELLED), None),
        ((OWN,), 55),  # ours does not
        ((OWN, THROTTLING, LABELLED), 55),
        ((OWN.replace("true", "false"), THROTTLING, LABELLED), 70),
        # What ours does not state is Volcano's; the default, if stated, is ours.
        ((OWN.replace(", threshold: 55", ""), THROTTLING, LABELLED), 70),
        ((OWN.replace(", threshold: 55", ""), THROTTLING, PLAIN), 80),
        ((OWN.replace("55", "80"), THROTTLING, LABELLED), 80),
        ((OWN.replace("55", "null"), THROTTLING, LABELLED), 70),
    ],
)
def test_rows(tmp_path: Path, documents: tuple[str, ...], threshold: int | None) -> None:
    wishes = wished(objects(tmp_path, *documents), EffectiveSettings())
    found = wishes.policies.get("best_effort_share")
    assert (found.threshold if found else None) == threshold
    assert wishes.problems == ()


def test_a_value_of_volcanos_that_does_not_count_is_told(tmp_path: Path) -> None:
    found = objects(tmp_path, OWN, THROTTLING, LABELLED)
    overruled = "bestEffortShare.threshold is 55 by our settings; cpuThrottlingConfig's 70 does not"
    assert wished(found, EffectiveSettings()).remarks == (f"{overruled} count",)
    unlabelled = objects(tmp_path, OWN, THROTTLING, PLAIN)
    assert wished(unlabelled, EffectiveSettings()).remarks == ()
    same = objects(tmp_path, OWN.replace("55", "70"), THROTTLING, LABELLED)
    assert wished(same, EffectiveSettings()).remarks == ()


def test_a_flag_states_a_value_as_well(tmp_path: Path) -> None:
    found = objects(tmp_path, OWN.replace(", threshold: 55", ""), THROTTLING, LABELLED)
    said = {"bestEffortShare.threshold": "80"}
    wishes = resolve_settings(
        found, own_node(found.nodes, "", ""), EffectiveSettings(), said, volcano_dialect()
    )
    assert wishes.policies["best_effort_share"].threshold == 80
    assert len(wishes.remarks) == 1


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        ((), "bestEffortShare.enabled is false, and there is no cpuThrottlingConfig"),
        (
            (THROTTLING.replace("true", "false"), LABELLED),
            NEITHER,
        ),
        (
            (THROTTLING, PLAIN),
            NO_LABEL,
        ),
        (
            (THROTTLING, MAYBE),
            MAYBE_LABEL,
        ),
        ((THROTTLING.replace("true", "false"), MAYBE), NEITHER),
        ((THROTTLING, LABELLED), None),
        ((OWN,), None),
    ],
)
def test_what_would_switch_it_on(
    tmp_path: Path, documents: tuple[str, ...], why: str | None
) -> None:
    wishes = wished(objects(tmp_path, *documents), EffectiveSettings())
    assert wishes.off.get("best_effort_share") == why


ALL_ON = """
cpuQosConfig: {enable: true}
cpuBurstConfig: {enable: true}
memoryQosConfig: {enable: true}
memoryQosV2Config: {enable: true}
cpuThrottlingConfig: {enable: true}
"""
HANDLERS = "elastic_resources qos_level memory_qos quota_burst"
COLOCATED = LABELLED.replace("volcano.sh/oversubscription", "volcano.sh/colocation")


@pytest.mark.parametrize(
    ("documents", "features", "policies"),
    [
        (
            (ALL_ON, LABELLED),
            "*",
            "best_effort_share elastic_resources qos_level memory_qos quota_burst",
        ),
        ((ALL_ON, COLOCATED), "*", HANDLERS),
        ((ALL_ON, PLAIN), "*", "elastic_resources"),
        ((ALL_ON,), "*", "elastic_resources"),
        ((ALL_ON, LABELLED), "OverSubscription,Eviction,Resources", "elastic_resources"),
        (
            (ALL_ON, LABELLED),
            "*,-CPUQoS",
            "best_effort_share elastic_resources memory_qos quota_burst",
        ),
        ((ALL_ON, LABELLED), "CPUBurst,CPUThrottle", "best_effort_share quota_burst"),
        ((ALL_ON, LABELLED), "", ""),
        ((THROTTLING, LABELLED), "*", "best_effort_share elastic_resources"),
        ((), "*", ""),
    ],
)
def test_features_are_switched_as_in_volcano(
    tmp_path: Path, documents: tuple[str, ...], features: str, policies: str
) -> None:
    """facts/volcano.md 4.4: coloc or over and enable; throttling needs over; Resources always."""
    found = objects(tmp_path, *documents)
    supported = read_features(features, "--supported-features")
    wishes = resolve_settings(
        found, own_node(found.nodes, "", ""), EffectiveSettings(), {}, volcano_dialect(supported)
    )
    assert list(wishes.policies) == policies.split()
    assert {*wishes.policies, *wishes.off} == {policy.name for policy in POLICIES}


@pytest.mark.parametrize(
    ("sections", "levels", "formula"),
    [
        ("memoryQosConfig: {enable: true}", True, "none"),
        ("memoryQosV2Config: {enable: true}", False, "ratios"),
        ("memoryQosConfig: {enable: true}\nmemoryQosV2Config: {enable: true}", True, "ratios"),
    ],
)
def test_two_memory_features_are_one_policy(
    tmp_path: Path, sections: str, levels: bool, formula: str
) -> None:
    settings = wished(objects(tmp_path, sections, LABELLED), EffectiveSettings()).policies[
        "memory_qos"
    ]
    assert (settings.levels, settings.formula.value) == (levels, formula)


@pytest.mark.parametrize(
    ("features", "levels", "formula"),
    [("*", True, "ratios"), ("*,-MemoryQoSV2", True, "none"), ("MemoryQoSV2", False, "ratios")],
)
def test_half_of_the_memory_policy_may_be_unsupported(
    tmp_path: Path, features: str, levels: bool, formula: str
) -> None:
    found = objects(tmp_path, ALL_ON, LABELLED)
    supported = read_features(features, "--supported-features")
    wishes = resolve_settings(
        found, own_node(found.nodes, "", ""), EffectiveSettings(), {}, volcano_dialect(supported)
    )
    settings = wishes.policies["memory_qos"]
    assert (settings.levels, settings.formula.value) == (levels, formula)


def test_every_reason_names_what_would_switch_it_on(tmp_path: Path) -> None:
    found = objects(tmp_path, ALL_ON, PLAIN)
    off = resolve_settings(
        found, own_node(found.nodes, "", ""), EffectiveSettings(), {}, volcano_dialect()
    ).off
    assert off["qos_level"] == (
        'cpuQosConfig is enabled, but the node has no label volcano.sh/colocation: "true"'
    )
    unsupported = resolve_settings(
        found, None, EffectiveSettings(), {}, volcano_dialect(("Resources",))
    ).off
    assert unsupported["quota_burst"] == (
        "quotaBurst.enabled is false, and --supported-features has no CPUBurst"
    )


def test_defaults_of_what_volcano_does_not_say(tmp_path: Path) -> None:
    bare = "cpuThrottlingConfig: {enable: true, cpuJitterLimitPercent: 5}"
    wishes = wished(objects(tmp_path, bare, LABELLED), EffectiveSettings())
    found = wishes.policies["best_effort_share"]
    assert (found.threshold, found.jitter, found.recover) == (80, 5, 10)


def test_wrong_configuration_is_told_and_what_was_set_stays(tmp_path: Path) -> None:
    good = wished(objects(tmp_path, THROTTLING, LABELLED), EffectiveSettings())
    wrong = THROTTLING.replace("70", "700")
    found = wished(objects(tmp_path, wrong, LABELLED), good)
    assert found.policies == good.policies
    assert len(found.problems) == 1
    assert "cpuThrottlingThreshold is 700" in found.problems[0].sentence()
    assert found.problems[0].sentence().endswith("; what was set before stays")


def test_a_policy_takes_objects_for_its_node_into_its_settings(tmp_path: Path) -> None:
    def bind(
        settings: SwitchSettings,
        found: EnsuranceObjects,
        labels: Mapping[str, str],
        _: Mapping[str, str],
    ) -> SwitchSettings | str:
        names = [each.metadata.name for each in found.policies_for(labels)]
        return BoundNames(settings.enabled, tuple(names)) if names else "nothing is for this node"

    follower = Policy(
        "follower",
        None,
        lambda _settings, _off: Needs(),
        lambda _snapshot, _memory, _settings: Act(()),
        settings=OnSettings,
        bind=bind,
    )
    policy = (
        "apiVersion: ensurance.crane.io/v1alpha1\nkind: NodeQOS\nmetadata: {name: mine}\n"
        "spec: {nodeQualityProbe: {nodeLocalGet: {}}, selector: {matchLabels: {pool: a}}, rules: ["
        "{name: r, actionName: a, metricRule: {name: cpu_total_usage, value: 1}}]}"
    )
    labelled = PLAIN.replace("labels: {}", "labels: {pool: a}")
    chosen = EffectiveSettings()
    for node, expected in ((labelled, ("mine",)), (PLAIN, None)):
        found = objects(tmp_path, node, policy)
        chosen = resolve_settings(found, found.nodes[0], EffectiveSettings(), policies=(follower,))
        bound = chosen.policies.get("follower")
        assert (bound.names if bound else None) == expected
    assert chosen.off == {"follower": "nothing is for this node"}
