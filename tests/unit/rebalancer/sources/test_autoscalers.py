"""Which autoscaler is meant, and what it wants."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.decoding import decode_struct
from slackwater.contract.workload_objects import Autoscaler, ScaleTarget
from slackwater.rebalancer.observed import HpaTarget, HpaTargetKind, NoAutoscaler, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.autoscalers import AutoscalerChoice, choose, possible_names
from slackwater.settings.rebalancer import WorkloadSettings
from tests.unit.contract.served import Object, autoscaler, cpu_metric

WEB = WorkloadSettings("shop", "web")


def chosen(
    *documents: Object, settings: WorkloadSettings = WEB, exists: bool = False
) -> AutoscalerChoice | Unavailable:
    """`exists`: whether there is a workload of that name."""
    every = [decode_struct(msgspec.json.encode(each), Autoscaler, "hpa") for each in documents]
    return choose(every, settings, lambda: exists)


def with_(**fields: Any) -> WorkloadSettings:
    return msgspec.structs.replace(WEB, **fields)


def hpa_target(*documents: Object, settings: WorkloadSettings = WEB) -> HpaTarget | Unavailable:
    found = chosen(*documents, settings=settings)
    return found if isinstance(found, Unavailable) else found.hpa_target


def seventy(hpa: str = "web", container: str = "") -> HpaTarget:
    return HpaTarget(HpaTargetKind.UTILIZATION, 70.0, hpa, container)


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("", ("web",)),
        ("keda-hpa-", ("web", "keda-hpa-web")),
        # The seed's spelling, without the dash.
        ("keda-hpa", ("web", "keda-hpa-web", "keda-hpaweb")),
        (".*", ("web", ".*-web", ".*web")),
    ],
)
def test_names(prefix: str, names: tuple[str, ...]) -> None:
    assert possible_names(with_(hpa_prefix=prefix)) == names


@pytest.mark.parametrize(
    ("name", "scales", "found"),
    [
        ("web", "Deployment/web", True),
        ("anything", "Deployment/web", True),
        ("keda-hpa-web", "Deployment/web-worker", True),
        ("web", "Deployment/web-worker", True),
        ("keda-hpa-webb", "Deployment/webb", False),
        ("keda-hpa-", "Deployment/other", False),
        ("xkeda-hpa-web", "Deployment/other", False),
    ],
)
def test_by_what_it_scales_or_by_its_name(name: str, scales: str, found: bool) -> None:
    choice = chosen(autoscaler(name, scales))
    assert isinstance(choice, AutoscalerChoice) is found
    if isinstance(choice, AutoscalerChoice):
        kind, _, target = scales.partition("/")
        assert choice.target == ScaleTarget(kind, target, "apps/v1")
        assert choice.hpa_target == seventy(name)


def test_both_parts_of_the_name_are_literal() -> None:
    dotted = msgspec.structs.replace(WEB, name="w.b", hpa_prefix="k.*")
    assert isinstance(chosen(autoscaler("keda-w-b", "Deployment/x"), settings=dotted), Unavailable)
    assert isinstance(
        chosen(autoscaler("k.*-w.b", "Deployment/x"), settings=dotted), AutoscalerChoice
    )


def test_none_is_missing() -> None:
    assert chosen() == NoAutoscaler(
        Reason.HPA_TARGET_MISSING,
        "no HorizontalPodAutoscaler of namespace shop scales a workload called web or is called "
        "web or keda-hpa-web",
    )
    found = chosen(autoscaler(), settings=with_(kind="StatefulSet"))
    assert isinstance(found, Unavailable)
    assert "scales StatefulSet web or is called" in found.because


def test_the_name_does_not_count_where_the_workload_exists() -> None:
    """A Deployment web that nobody scales is not judged by the target of web-green, and web-green
    is not rotated in its place."""
    found = chosen(
        autoscaler("web", "Deployment/web-green"),
        autoscaler("keda-hpa-web", "StatefulSet/db"),
        exists=True,
    )
    assert found == NoAutoscaler(
        Reason.HPA_TARGET_MISSING,
        "no HorizontalPodAutoscaler of namespace shop scales a workload called web: keda-hpa-web "
        "scales StatefulSet db, web scales Deployment web-green, whose target is not this "
        "workload's",
    )


def test_one_that_scales_it_beats_one_that_is_only_called_so() -> None:
    found = chosen(autoscaler("web", "Deployment/other"), autoscaler("x", "Deployment/web"))
    assert isinstance(found, AutoscalerChoice)
    assert (found.target.name, found.hpa_target) == ("web", seventy("x"))


def test_two_workloads_are_ambiguous_and_a_kind_decides() -> None:
    both = (autoscaler("a", "Deployment/web"), autoscaler("b", "StatefulSet/web"))
    assert chosen(*both) == Unavailable(
        Reason.HPA_TARGET_AMBIGUOUS,
        "several HorizontalPodAutoscalers are meant by web: a scales Deployment web, b scales "
        "StatefulSet web; name the workload's kind, or its own name",
    )
    assert hpa_target(*both, settings=with_(kind="StatefulSet")) == seventy("b")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # The same twice is one: `x` and `keda-hpa-x` side by side.
        (70, 70, "one"),
        (70, 80, "a wants 70 %, b wants 80 %"),
        (70, "700m", "a wants 70 %, b wants 0.7 cores"),
        ("700m", "0.7", "one"),
    ],
)
def test_two_autoscalers_of_one_workload(
    first: int | str, second: int | str, expected: str
) -> None:
    found = hpa_target(
        autoscaler("b", "Deployment/web", cpu_metric(second)),
        autoscaler("a", "Deployment/web", cpu_metric(first)),
    )
    if expected == "one":
        assert isinstance(found, HpaTarget)
        assert found.hpa == "a"
    else:
        assert found == Unavailable(
            Reason.HPA_TARGET_AMBIGUOUS, f"the target for cpu of web is not one: {expected}"
        )


@pytest.mark.parametrize(
    ("metric", "kind", "value", "container"),
    [
        (cpu_metric(70), HpaTargetKind.UTILIZATION, 70.0, ""),
        # More than its request is what a burstable pod may be meant to use.
        (cpu_metric(150), HpaTargetKind.UTILIZATION, 150.0, ""),
        (cpu_metric("700m"), HpaTargetKind.AVERAGE_VALUE, 0.7, ""),
        (cpu_metric("2"), HpaTargetKind.AVERAGE_VALUE, 2.0, ""),
        (cpu_metric(60, "app"), HpaTargetKind.UTILIZATION, 60.0, "app"),
    ],
)
def test_targets(metric: Object, kind: HpaTargetKind, value: float, container: str) -> None:
    external = {"type": "External", "external": {"metric": {"name": "cpu"}, "target": {}}}
    memory = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Value"}}}
    made = autoscaler("web", "Deployment/web", external, memory, metric)
    assert hpa_target(made) == HpaTarget(kind, value, "web", container)


NO_METRIC = (
    "HorizontalPodAutoscaler web of namespace shop has no metric of type Resource or "
    "ContainerResource called cpu"
)
NOTHING = (
    "HorizontalPodAutoscaler shop/web has a target of type {} for cpu, which says nothing about "
    "one pod; Utilization and AverageValue do"
)
ZERO = "HorizontalPodAutoscaler shop/web: {} of cpu is {}, but must be above zero"


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ({"type": "External", "external": {}}, NO_METRIC),
        ({"type": "Resource", "resource": {"name": "memory"}}, NO_METRIC),
        (cpu_metric("1", kind="Value"), NOTHING.format("Value")),
        ({"type": "Resource", "resource": {"name": "cpu"}}, NOTHING.format("none")),
        (cpu_metric(0), ZERO.format("averageUtilization", 0)),
        (cpu_metric(-70), ZERO.format("averageUtilization", -70)),
        (cpu_metric("lots"), ZERO.format("averageValue", "'lots'")),
        (cpu_metric("0"), ZERO.format("averageValue", "'0'")),
        (cpu_metric("-1"), ZERO.format("averageValue", "'-1'")),
        (cpu_metric(70, kind="AverageValue"), ZERO.format("averageValue", "missing")),
        (cpu_metric("1", kind="Utilization"), ZERO.format("averageUtilization", "missing")),
    ],
)
def test_targets_that_say_nothing(metric: Object, told: str) -> None:
    found = hpa_target(autoscaler("web", "Deployment/web", metric))
    assert found == Unavailable(Reason.HPA_TARGET_MISSING, told)


def test_a_target_of_memory_is_none_of_cpu() -> None:
    target = {"type": "Utilization", "averageUtilization": 80}
    memory = {"type": "Resource", "resource": {"name": "memory", "target": target}}
    assert hpa_target(autoscaler("web", "Deployment/web", memory, cpu_metric())) == seventy()
    assert hpa_target(autoscaler("web", "Deployment/web", memory)) == Unavailable(
        Reason.HPA_TARGET_MISSING,
        "HorizontalPodAutoscaler web of namespace shop has no metric of type Resource or "
        "ContainerResource called cpu",
    )


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        # Nothing is asked for: the container called like the workload.
        ("", seventy(container="web")),
        ("web", seventy(container="web")),
        ("log", HpaTarget(HpaTargetKind.UTILIZATION, 40.0, "web", "log")),
    ],
)
def test_of_several_containers_the_wanted_one(container: str, expected: HpaTarget) -> None:
    made = autoscaler("web", "Deployment/web", cpu_metric(70, "web"), cpu_metric(40, "log"))
    assert hpa_target(made, settings=with_(container=container)) == expected


def test_of_several_containers_none_of_which_is_wanted() -> None:
    made = autoscaler("web", "Deployment/web", cpu_metric(70, "app"), cpu_metric(40, "log"))
    assert hpa_target(made) == Unavailable(
        Reason.HPA_TARGET_AMBIGUOUS,
        "the target for cpu of web is not one: web wants 70 % for container app, web wants 40 % "
        "for container log",
    )
    assert hpa_target(made, settings=with_(container="db")) == Unavailable(
        Reason.HPA_TARGET_MISSING,
        "HorizontalPodAutoscaler shop/web has a target for cpu of container app, not of db; "
        "HorizontalPodAutoscaler shop/web has a target for cpu of container log, not of db",
    )


def test_the_whole_pods_target_serves_any_container() -> None:
    assert hpa_target(autoscaler(), settings=with_(container="app")) == seventy()
    assert hpa_target(
        autoscaler("web", "Deployment/web", cpu_metric(70, "app")),
        settings=with_(container="*"),
    ) == seventy(container="app")


@pytest.mark.parametrize(
    ("desired", "current", "expected"),
    [
        (6, 6, (6, 6)),
        (8, 6, (8, 6)),
        (4, 6, (4, 6)),
        # Before its first metric, and where it is switched off, it wants nothing.
        (0, 6, (6, 6)),
        (0, 0, (0, 0)),
    ],
)
def test_scaling(desired: int, current: int, expected: tuple[int, int]) -> None:
    found = chosen(autoscaler(desired=desired, current=current))
    assert isinstance(found, AutoscalerChoice)
    assert (found.desired, found.current) == expected


def test_of_two_the_one_that_scales_counts() -> None:
    found = chosen(autoscaler("a"), autoscaler("b", desired=8))
    assert isinstance(found, AutoscalerChoice)
    assert (found.desired, found.current) == (8, 6)


@given(st.permutations([autoscaler("a"), autoscaler("b", desired=8), autoscaler("c", "Job/x")]))
def test_their_order_means_nothing(every: list[Object]) -> None:
    assert chosen(*every) == chosen(*sorted(every, key=lambda each: each["metadata"]["name"]))
