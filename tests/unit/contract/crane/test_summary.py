"""What the status of Crane's ensurance objects says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.crane.ensurance import AvoidanceAction, Policy
from slackwater.contract.crane.objects import (
    read_avoidance_action,
    read_node_qos,
    read_node_qos_ensurance_policy,
    read_pod_qos,
)
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.crane.summary import (
    action_problems,
    action_summary,
    is_for_node,
    pod_qos_problems,
    pod_qos_summary,
    problems,
    summary,
)
from tests.unit.contract.crane import documents as whole
from tests.unit.contract.crane.documents import Document, spoilt
from tests.unit.contract.crane.test_objects import manifest

LOCAL: Document = {"nodeLocalGet": {}}
CPU_THROTTLE = {"cpuThrottle": {"stepCPURatio": 10}}


def action(name: str = "throttle", **spec: object) -> AvoidanceAction:
    return read_avoidance_action({"metadata": {"name": name}, "spec": spec}, "test")


def rule(**content: object) -> Document:
    said = {"name": "a", "actionName": "throttle", "metricRule": metric(), **content}
    return {key: value for key, value in said.items() if value is not None}


def metric(name: str = "cpu_total_usage", value: object = 6000) -> Document:
    return {"name": name, "value": value}


def policy(*rules: Document, probe: Document = LOCAL) -> Policy:
    spec = {"nodeQualityProbe": probe, "rules": list(rules)}
    return read_node_qos({"metadata": {"name": "p"}, "spec": spec}, "test")


def pod_qos(**spec: object) -> PodQos:
    return read_pod_qos({"metadata": {"name": "q"}, "spec": spec}, "test")


ACTIONS = {
    "throttle": action(throttle=CPU_THROTTLE),
    "evict": action("evict", eviction={}),
    "both": action("both", eviction={}, throttle=CPU_THROTTLE),
    "stop": action("stop"),
    "idle": action("idle", throttle={"memoryThrottle": {"forceGC": True}}),
}


def test_the_seeds_policies_in_their_own_words() -> None:
    names = ("disable-scheduling", "throttle", "eviction")
    actions = [read_avoidance_action(manifest(f"{name}-action"), "seed") for name in names]
    known = {each.metadata.name: each for each in actions}
    policies = [
        read_node_qos_ensurance_policy(manifest(f"{name}-policy"), "seed") for name in names
    ]
    assert [summary(each, known) for each in policies] == [
        "stop scheduling when cpu_total_usage > 4000, twice in a row; back after 2 below",
        "throttle when cpu_total_usage > 6000, twice in a row; back after 2 below",
        "only tell of: evict when cpu_total_usage > 6000, twice in a row; back after 2 below",
    ]
    assert [problems(each, known) for each in policies] == [(), (), ()]
    assert [action_summary(each) for each in actions] == [
        "stop scheduling; back 300 s after the last trigger at the earliest",
        (
            "throttle by 10 % a step, not below 10 % of the limit; back 300 s after the last "
            "trigger at the earliest"
        ),
        "evict with 30 s to end; back 300 s after the last trigger at the earliest",
    ]
    assert [action_problems(each) for each in actions] == [(), (), ()]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, "throttle when cpu_total_usage > 6000; back after 1 below"),
        (
            {"avoidanceThreshold": 2, "restoreThreshold": 3},
            "throttle when cpu_total_usage > 6000, twice in a row; back after 3 below",
        ),
        (
            {"avoidanceThreshold": 5, "restoredThreshold": 4},
            "throttle when cpu_total_usage > 6000, 5 times in a row; back after 4 below",
        ),
        (
            {"actionName": "both", "metricRule": metric("memory_total_usage", "2Gi")},
            "throttle and evict when memory_total_usage > 2147483648; back after 1 below",
        ),
        (
            {"actionName": "stop", "strategy": "Preview"},
            "only tell of: stop scheduling when cpu_total_usage > 6000; back after 1 below",
        ),
        (
            {"actionName": "idle"},
            "nothing when cpu_total_usage > 6000; back after 1 below",
        ),
        (
            {"actionName": "gone"},
            "nothing (there is no gone) when cpu_total_usage > 6000; back after 1 below",
        ),
    ],
)
def test_summary(content: Document, told: str) -> None:
    assert summary(policy(rule(**content)), ACTIONS) == told


def test_several_rules() -> None:
    both = policy(rule(), rule(name="b", actionName="evict", metricRule=metric(value=7000)))
    assert summary(both, ACTIONS) == (
        "throttle when cpu_total_usage > 6000; back after 1 below | "
        "evict when cpu_total_usage > 7000; back after 1 below"
    )


def test_a_series_of_a_probe_is_compared_exactly() -> None:
    found = policy(rule(metricRule=metric("x:p99", "50m")), probe={"httpGet": {"port": 80}})
    assert summary(found, ACTIONS) == "throttle when x:p99 > 50m; back after 1 below"


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (policy(rule()), ()),
        (
            policy(rule(actionName="gone"), rule(name="b", actionName="lost")),
            (
                "rule a: there is no AvoidanceAction 'gone'",
                "rule b: there is no AvoidanceAction 'lost'",
            ),
        ),
        (
            policy(rule(metricRule=metric("mine")), probe={"httpGet": {"port": 80}}),
            (),
        ),
        (
            policy(
                rule(metricRule=metric("cpu_total_utilization", 100)),
                probe={"httpGet": {"port": 80}},
            ),
            (),
        ),
    ],
)
def test_problems(found: Policy, told: tuple[str, ...]) -> None:
    assert problems(found, ACTIONS) == told


@pytest.mark.parametrize(
    ("name", "value", "never"),
    [
        ("cpu_total_utilization", 99, False),
        ("cpu_total_utilization", "99500m", True),  # counts as 100
        ("cpu_total_utilization", 100, True),
        ("memory_total_utilization", 101, True),
        ("memory_total_utilization", "4k", True),
        ("memory_total_utilization", 80, False),
        ("cpu_total_usage", 6000, False),
        ("disk_read_utilization", 100, False),  # a disk's queues can make more of it
    ],
)
def test_a_share_is_never_above_the_whole(name: str, value: object, never: bool) -> None:
    found = policy(rule(metricRule=metric(name, value)))
    limit = found.spec.rules[0].metric_rule.limit
    sentence = f"rule a: {name} is in percent and never above {limit}; it must be below 100 to"
    assert [each.startswith(sentence) for each in problems(found, ACTIONS)] == [True] * never


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, ()),
        ({"eviction": {}}, ()),
        ({"throttle": CPU_THROTTLE}, ()),
        ({"throttle": {}}, ("spec.throttle has no cpuThrottle and does nothing",)),
        (
            {"throttle": {"cpuThrottle": {"minCPURatio": 10}}},
            ("spec.throttle.cpuThrottle.stepCPURatio is 0 and throttles nothing",),
        ),
    ],
)
def test_action_problems(spec: Document, told: tuple[str, ...]) -> None:
    assert action_problems(action(**spec)) == told


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"throttle": CPU_THROTTLE}, "throttle by 10 % a step"),
        ({"eviction": {}}, "evict"),
        (
            {"throttle": CPU_THROTTLE, "eviction": {"terminationGracePeriodSeconds": 0}},
            "throttle by 10 % a step and evict with 0 s to end",
        ),
        ({"throttle": {}}, "nothing"),
    ],
)
def test_action_summary(spec: Document, told: str) -> None:
    assert action_summary(action(coolDownSeconds=60, **spec)) == (
        f"{told}; back 60 s after the last trigger at the earliest"
    )


BATCH = {"labelSelector": {"matchLabels": {"app": "batch"}}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "for no pod: it has no selector"),
        ({"scopeSelector": {}}, "for no pod: it has no selector"),
        (BATCH, "pods with app=batch allow no action"),
        (
            {"labelSelector": {}, "allowedActions": ["throttle", "evict"]},
            "all pods allow throttle, evict",
        ),
    ],
)
def test_pod_qos_summary(spec: Document, told: str) -> None:
    assert pod_qos_summary(pod_qos(**spec)) == told


def test_a_pod_qos_with_everything() -> None:
    path = ("spec", "labelSelector", "matchExpressions", 0)
    found = spoilt(whole.POD_QOS, path, {"key": "a", "operator": "NotIn", "values": ["b"]})
    found = spoilt(found, (*path[:-1], 2), {"key": "c", "operator": "Exists"})
    found = spoilt(found, (*path[:-1], 3), {"key": "d", "operator": "In", "values": ["e", "f"]})
    assert pod_qos_summary(read_pod_qos(found, "test")) == (
        "pods with pool=batch and a not in (b) and no spot and c and d in (e, f) and "
        "QOSClass in (BestEffort, Burstable) and Priority in (0-1000, -5) and "
        "Namespace not in (kube-system) allow throttle, eviction"
    )


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({**BATCH, "allowedActions": ["throttle"]}, ()),
        ({}, ("it is for no pod: it has neither labelSelector nor scopeSelector",)),
        (
            {"labelSelector": {}, "allowedActions": ["Throttle"]},
            ("allowedActions: there is no AvoidanceAction 'Throttle'",),
        ),
    ],
)
def test_pod_qos_problems(spec: Document, told: tuple[str, ...]) -> None:
    assert pod_qos_problems(pod_qos(**spec), ACTIONS) == told


def test_for_which_nodes() -> None:
    assert is_for_node(policy(rule()), {})
    chosen = read_node_qos(whole.NODE_QOS, "test")
    assert not is_for_node(chosen, {})
    assert is_for_node(chosen, {"pool": "batch", "example.com/zone": "a"})


@given(st.integers(1, 24), st.integers(1, 2**31 - 1), st.sampled_from([*ACTIONS, "gone"]))
def test_a_summary_is_a_line_that_fits(count: int, times: int, name: str) -> None:
    """status.summary takes 4096 characters."""
    rules = [
        rule(name=f"r{place}", actionName=name, avoidanceThreshold=times) for place in range(count)
    ]
    told = summary(policy(*rules), ACTIONS)
    assert len(told) <= 4096
    assert "\n" not in told
    assert told.count(" when ") == count or told.endswith("...")
