"""Which pods an action may touch. Numbers in the ids are rows of section 10 of the facts about
Crane."""

from typing import Any

import pytest

from slackwater.contract.crane.pod_qos import PodQos
from slackwater.model.cgroup import Tier
from slackwater.model.workload import Workload
from slackwater.policies.ensurance.pod_selection import (
    SelectionRules,
    explain_selection,
    matches,
    remark_on_pod_qos,
    select_pods,
)
from tests.unit.policies.ensurance import batch, pod_qos, scope

BE, BU, GU = Tier.BESTEFFORT, Tier.BURSTABLE, Tier.GUARANTEED


def selected(
    *pods: Workload,
    qos: tuple[PodQos, ...] = (),
    action: str = "throttle",
    believed: tuple[str, ...] = (),
) -> list[str]:
    return [pod.uid for pod in select_pods(pods, SelectionRules(qos, believed), action)]


@pytest.mark.parametrize(
    ("values", "operator", "priority", "wanted"),
    [
        pytest.param(("1000-3000",), "In", 1000, True, id="61 lower end"),
        pytest.param(("1000-3000",), "In", 3000, True, id="61 upper end"),
        pytest.param(("1000-3000",), "In", 3001, False, id="61 beyond"),
        pytest.param(("5", "7"), "NotIn", 5, False, id="61 not in, the first"),
        pytest.param(("5", "7"), "NotIn", 7, False, id="61 not in, the last"),
        pytest.param(("5", "7"), "NotIn", 6, True, id="61 not in, neither"),
        pytest.param(("-10",), "In", -10, True, id="negative"),
        pytest.param(("-10--5",), "In", -7, True, id="negative range"),
        pytest.param(("-10--5",), "In", -4, False, id="beyond a negative range"),
        pytest.param(("-5-5",), "In", 0, True, id="across zero"),
    ],
)
def test_priorities(values: tuple[str, ...], operator: str, priority: int, wanted: bool) -> None:
    chosen = pod_qos("p", "throttle", **scope("Priority", operator, *values))
    assert matches(chosen, batch(1, priority=priority)) is wanted


@pytest.mark.parametrize(
    ("spec", "pod", "wanted"),
    [
        ({}, {}, False),
        ({"scopeSelector": {"matchExpressions": []}}, {}, False),
        ({"labelSelector": {}}, {}, True),
        ({"labelSelector": {"matchLabels": {"a": "b"}}}, {"labels": {"a": "b"}}, True),
        ({"labelSelector": {"matchLabels": {"a": "b"}}}, {"labels": {"a": "c"}}, False),
        (scope("QOSClass", "In", "BestEffort"), {}, True),
        (scope("QOSClass", "In", "Burstable", "Guaranteed"), {}, False),
        (scope("QOSClass", "NotIn", "Guaranteed"), {}, True),
        (scope("Namespace", "In", "default"), {}, True),
        (scope("Namespace", "NotIn", "default", "other"), {}, False),
        (
            scope("Namespace", "In", "default") | {"labelSelector": {"matchLabels": {"a": "b"}}},
            {},
            False,
        ),
    ],
)
def test_selectors(spec: dict[str, Any], pod: dict[str, Any], wanted: bool) -> None:
    assert matches(pod_qos("p", "throttle", **spec), batch(1, **pod)) is wanted


def test_only_actions_that_are_allowed() -> None:
    everything: dict[str, Any] = {"labelSelector": {}}
    qos = (pod_qos("p", "evict", "stop", **everything),)
    assert selected(batch(1), qos=qos) == []
    assert selected(batch(1), qos=qos, action="evict") == ["1"]
    # A PodQOS that allows nothing still is one: nobody may be touched.
    assert selected(batch(1), qos=(pod_qos("p", **everything),)) == []


def test_one_of_several_is_enough() -> None:
    qos = (
        pod_qos("a", "throttle", labelSelector={"matchLabels": {"app": "x"}}),
        pod_qos("b", "throttle", labelSelector={"matchLabels": {"app": "y"}}),
    )
    pods = [batch(n, labels={"app": app}) for n, app in enumerate("xyz")]
    assert selected(*pods, qos=qos) == ["0", "1"]


@pytest.mark.parametrize("why", ["static", "critical"])
def test_protected_pods_are_never_touched(why: str) -> None:
    pod = batch(1, protected=why, priority=-5)
    assert selected(pod, batch(2, tier=BU)) == []
    assert selected(pod, qos=(pod_qos("p", "throttle", labelSelector={}),)) == []


EVERYONE = pod_qos("p", "throttle", labelSelector={})


@pytest.mark.parametrize(
    ("qos", "believed", "wanted"),
    [
        pytest.param((), (), [], id="without a PodQOS its word counts"),
        pytest.param((EVERYONE,), (), ["1"], id="a PodQOS is an administrator's word"),
        pytest.param((EVERYONE,), ("other",), ["1"], id="another namespace is believed"),
        pytest.param((EVERYONE,), ("other", "default"), [], id="its namespace is believed"),
        pytest.param((EVERYONE,), ("*",), [], id="every namespace is believed"),
    ],
)
def test_a_pod_that_exempts_itself(
    qos: tuple[PodQos, ...], believed: tuple[str, ...], wanted: list[str]
) -> None:
    assert selected(batch(1, protected="exempt"), qos=qos, believed=believed) == wanted


def test_an_exempted_pod_changes_nothing_for_others() -> None:
    """Whoever exempts the service still wants the others to yield to it."""
    service = batch(1, tier=BU, priority=100, protected="exempt")
    assert selected(service, batch(2, tier=BU)) == ["2"]


def test_without_a_pod_qos_those_below_the_highest_priority_and_best_effort() -> None:
    service, job = batch(1, tier=BU, priority=100), batch(2, tier=BU, priority=-1)
    assert selected(service, job) == ["2"]
    assert selected(service, batch(3, priority=100)) == ["3"]
    assert selected(job, batch(4, tier=GU, priority=-1)) == []


def test_protected_pods_do_not_make_everyone_else_low() -> None:
    """Critical pods have a priority of two billions."""
    critical = batch(1, tier=BU, priority=2_000_000_000, protected="critical")
    assert selected(critical, batch(2, tier=BU), batch(3, tier=GU)) == []


def test_a_pod_without_an_object_is_left_alone() -> None:
    unknown = batch(1, namespace="")
    qos = pod_qos("p", "throttle", **scope("Namespace", "NotIn", "x"))
    assert (selected(unknown), selected(unknown, qos=(qos,))) == ([], [])


def test_a_pod_qos_that_matches_nothing_is_told() -> None:
    lonely = pod_qos("p", "throttle", "evict", labelSelector={"matchLabels": {"a": "b"}})
    [remark] = remark_on_pod_qos((batch(1),), (lonely,), frozenset({"throttle"}))
    assert remark.about == "PodQOS/p"
    assert remark.text == "matches no pod of this node, so throttle touches none"
    assert not list(remark_on_pod_qos((batch(1),), (lonely,), frozenset({"stop"})))
    assert not list(
        remark_on_pod_qos((batch(1, labels={"a": "b"}),), (lonely,), frozenset({"evict"}))
    )


ALLOWS = pod_qos("p", "throttle", labelSelector={"matchLabels": {"a": "b"}})


@pytest.mark.parametrize(
    ("pod", "qos", "told"),
    [
        (
            batch(1, namespace=""),
            (),
            ("no rule touches it, as its object is not known",),
        ),
        (batch(1, protected="critical"), (), ("no rule touches it: it is critical",)),
        (batch(1, protected="exempt"), (), ("no rule touches it: it is exempt",)),
        (
            batch(1, protected="exempt", labels={"a": "b"}),
            (ALLOWS,),
            (
                "throttle may touch it when a rule is triggered",
                (
                    "it says that it is exempt, which a PodQOS overrules: its namespace is not in "
                    "watermarkRelief.exemptNamespaces"
                ),
                "evict may not touch it: PodQOS/p does not allow it",
            ),
        ),
        (
            batch(1, tier=BU, priority=-1),
            (),
            ("evict, throttle may touch it when a rule is triggered",),
        ),
        (
            batch(1, tier=BU, priority=10),
            (),
            ("evict, throttle may not touch it: its priority 10 is the highest here",),
        ),
        (
            batch(1, labels={"a": "b"}),
            (ALLOWS,),
            (
                "throttle may touch it when a rule is triggered",
                "evict may not touch it: PodQOS/p does not allow it",
            ),
        ),
        (batch(1), (ALLOWS,), ("evict, throttle may not touch it: no PodQOS matches it",)),
    ],
)
def test_why_a_pod_may_be_touched_or_not(
    pod: Workload, qos: tuple[PodQos, ...], told: tuple[str, ...]
) -> None:
    pods = (pod, batch(2, tier=BU, priority=0))
    rules = SelectionRules(qos)
    assert explain_selection(pods, rules, frozenset({"throttle", "evict"}), pod) == told
    assert explain_selection(pods, rules, frozenset(), pod) == ()
