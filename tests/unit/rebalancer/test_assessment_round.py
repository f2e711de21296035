"""What is asked, how often, and what each answer makes of a workload."""

from collections import Counter

import msgspec
import pytest

from slackwater.kube.api_time import format_time
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import assess_all
from slackwater.rebalancer.last_rotation import encode_last_rotation
from slackwater.rebalancer.observed import (
    Lag,
    LastRotation,
    NamespaceUsage,
    ObservedWorkload,
    Unavailable,
    WorkloadName,
)
from slackwater.rebalancer.reason import PROBLEMS, Reason
from slackwater.settings.rebalancer import (
    CapSettings,
    KafkaSettings,
    MoveSettings,
    RunSettings,
    WorkloadSettings,
)
from tests.unit.rebalancer.rotating_world import RUN, SETTINGS, World
from tests.unit.rebalancer.workloads import F6, NOON, live, observed, rotated, usage

MINUTE = 60_000_000


class Many:
    """Workloads of the same six pods, by "namespace/name"; counts who is asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.problems: dict[str, Unavailable] = {}
        self.usage_problems: dict[str, Unavailable] = {}
        self.lags: dict[str, Lag | Gap] = {}
        self.notes: tuple[str, ...] = ()
        self.halted_after = 10**9

    def observe_again(self, _: WorkloadSettings) -> ObservedWorkload | Unavailable:
        raise AssertionError("nothing is rotated")

    def observe(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable:
        self.asked[f"read {settings.name}"] += 1
        if settings.name in self.problems:
            return self.problems[settings.name]
        name = WorkloadName(settings.namespace, "Deployment", settings.name)
        return observed(*(live(pod) for pod in F6), workload=name)

    def usage(self, namespace: str, window: Micros, at: float) -> NamespaceUsage | Unavailable:
        assert at == NOON
        self.asked[f"usage {namespace} {window // MINUTE}m"] += 1
        if namespace in self.usage_problems:
            return self.usage_problems[namespace]
        return msgspec.structs.replace(usage(), notes=self.notes)

    def lag(self, settings: WorkloadSettings) -> Lag | Gap:
        self.asked[f"lag {settings.name}"] += 1
        return self.lags.get(settings.name, Lag(5, "a test"))

    def halted(self) -> str:
        return "asked to end" if self.asked.total() >= self.halted_after else ""


def workload(name: str, namespace: str = "shop", **other: object) -> WorkloadSettings:
    return WorkloadSettings(namespace, name, container="web", **other)  # type: ignore[arg-type]


def of(many: Many, *workloads: WorkloadSettings, **other: object) -> dict[str, Reason | None]:
    settings = RunSettings(workloads=workloads, **other)  # type: ignore[arg-type]
    found = assess_all(many, settings, NOON)
    return {each.settings.name: each.assessment.reason for each in found.workloads}


def test_the_seeds_example() -> None:
    [found] = assess_all(World().sources(), RUN, NOON).workloads
    assert found.assessment.rotates
    assert found.assessment.because == "Improvement 34.8% exceeds minimum 10.0%"
    batches = [" ".join(pod.name for pod in batch) for batch in found.assessment.batches]
    assert batches == ["A F", "B E"]


def test_usage_is_asked_once_for_each_namespace_and_window() -> None:
    many = Many()
    short = MoveSettings(window=Micros(2 * MINUTE))
    of(many, workload("a"), workload("b"), workload("c", "bank"), workload("d", moves=short))
    assert many.asked == Counter(
        {"usage shop 5m": 1, "usage bank 5m": 1, "usage shop 2m": 1}
        | {f"read {name}": 1 for name in "abcd"}
    )


def test_a_namespace_without_any_workload_is_not_asked_for() -> None:
    many = Many()
    many.problems["a"] = Unavailable(Reason.WORKLOAD_MISSING, "not there")
    assert of(many, workload("a")) == {"a": Reason.WORKLOAD_MISSING}
    assert "usage shop 5m" not in many.asked


@pytest.mark.parametrize("reason", [each for each in Reason if each in PROBLEMS])
def test_one_workloads_trouble_is_its_own(reason: Reason) -> None:
    many = Many()
    many.problems["b"] = Unavailable(reason, "because")
    assert of(many, workload("a"), workload("b"), workload("c")) == {
        "a": None, "b": reason, "c": None,
    }  # fmt: skip


def test_one_namespaces_trouble_is_its_own() -> None:
    many = Many()
    many.usage_problems["bank"] = Unavailable(Reason.PROMETHEUS_ERROR, "it is down")
    found = of(many, workload("a"), workload("b", "bank"), workload("c", "bank"))
    assert found == {"a": None, "b": Reason.PROMETHEUS_ERROR, "c": Reason.PROMETHEUS_ERROR}


def test_errors_are_counted_by_question() -> None:
    """A server that is down is one failed question, however many workloads wanted to know."""
    many = Many()
    many.usage_problems["bank"] = Unavailable(Reason.PROMETHEUS_ERROR, "it is down")
    many.usage_problems["till"] = Unavailable(Reason.NO_USAGE_DATA, "nothing there")
    many.problems["d"] = Unavailable(Reason.KUBERNETES_ERROR, "refused")
    many.problems["e"] = Unavailable(Reason.WORKLOAD_MISSING, "not there")
    many.lags["f"] = Gap("no such group")
    lagging = workload("f", kafka=KafkaSettings(enabled=True))
    settings = RunSettings(
        workloads=(
            workload("a", "bank"), workload("b", "bank"), workload("c", "till"), workload("d"),
            workload("e"), lagging,
        )
    )  # fmt: skip
    found = assess_all(many, settings, NOON)
    assert found.errors == {"prometheus": 1, "kubernetes": 1, "kafka": 1}


def test_a_workload_that_was_not_read_keeps_its_name() -> None:
    many = Many()
    many.problems = dict.fromkeys("ab", Unavailable(Reason.WORKLOAD_MISSING, "not there"))
    settings = RunSettings(workloads=(workload("a"), workload("b", kind="StatefulSet")))
    found = assess_all(many, settings, NOON)
    told = [str(each.workload) for each in found.assessments()]
    assert told == ["workload shop/a", "StatefulSet shop/b"]


LAG = KafkaSettings(enabled=True, threshold=1000)


@pytest.mark.parametrize(
    ("kafka", "lag", "reason", "asked"),
    [
        (KafkaSettings(), Lag(5000, "x"), None, 0),
        (LAG, Lag(1000, "x"), None, 1),
        (LAG, Lag(1001, "x"), Reason.KAFKA_LAG_HIGH, 1),
        (LAG, Gap("no such group"), Reason.KAFKA_LAG_UNKNOWN, 1),
    ],
)
def test_the_lag_gate(
    kafka: KafkaSettings, lag: Lag | Gap, reason: Reason | None, asked: int
) -> None:
    many = Many()
    many.lags["a"] = lag
    assert of(many, workload("a", kafka=kafka)) == {"a": reason}
    assert many.asked["lag a"] == asked


def test_lag_is_not_asked_for_where_nothing_is_proposed() -> None:
    many = Many()
    calm = MoveSettings(minimum_improvement=50.0)
    assert of(many, workload("a", moves=calm, kafka=LAG)) == {"a": Reason.INSUFFICIENT_IMPROVEMENT}
    assert many.asked["lag a"] == 0


def test_the_group_is_the_workloads_name_unless_it_is_said() -> None:
    many = Many()
    said = KafkaSettings(enabled=True, group="readers")
    settings = RunSettings(workloads=(workload("a", kafka=LAG), workload("b", kafka=said)))
    found = assess_all(many, settings, NOON)
    told = [each.guards[-1].because for each in found.assessments()]
    assert "consumer group a" in told[0]
    assert "consumer group readers" in told[1]


def test_caps_count_over_all_workloads() -> None:
    many = Many()
    found = of(many, workload("a"), workload("b"), caps=CapSettings(run=4))
    assert found == {"a": None, "b": Reason.CAPPED}


def test_who_is_asked_to_end_asks_no_more() -> None:
    many = Many()
    many.halted_after = 2
    found = of(many, workload("a"), workload("b"), workload("c", "bank"))
    assert found == {"a": None, "b": Reason.STOPPED, "c": Reason.STOPPED}
    assert many.asked.total() == 2


def test_an_end_while_lag_is_asked_for_is_no_unknown_lag() -> None:
    many = Many()
    many.lags["a"] = Gap("interrupted")
    many.halted_after = 3
    assert of(many, workload("a", kafka=LAG)) == {"a": Reason.STOPPED}
    assert many.asked["lag a"] == 1


def test_what_a_source_adds_is_passed_on() -> None:
    many = Many()
    many.notes = ("half of it is missing",)
    settings = RunSettings(workloads=(workload("a"), workload("b")))
    found = assess_all(many, settings, NOON)
    assert found.remarks == (("usage in namespace shop", "half of it is missing"),)


# --- what the last rotation brought


def judging(last: LastRotation) -> tuple[LastRotation | None, Reason | None]:
    world = World({"A": 0.9, "B": 0.8, "C": 0.7, "D": 0.7, "E": 0.7, "F": 0.6})
    world.annotation = encode_last_rotation(last, format_time)
    [found] = assess_all(world.sources(), RUN, NOON).workloads
    return found.assessment.judged, found.assessment.reason


def test_the_last_rotation_is_judged_before_the_next_is_decided() -> None:
    news, reason = judging(rotated())
    assert news is not None
    assert (news.judged, news.misses) == (True, 0)
    # (0.85 / 0.7333) against (1.15 / 0.7333)
    assert news.realised == pytest.approx(100 * (1 - 0.85 / 1.15))
    assert reason is Reason.NO_PODS_ABOVE_TOLERANCE


@pytest.mark.parametrize(
    "last",
    [rotated(judged=True), rotated("2026-11-17T11:58:00Z")],
    ids=["judged before", "too early"],
)
def test_it_is_judged_once(last: LastRotation) -> None:
    assert judging(last)[0] is None


def test_without_usage_it_is_not_judged() -> None:
    world = World()
    world.annotation = encode_last_rotation(rotated(), format_time)
    world.usage_problem = Unavailable(Reason.PROMETHEUS_ERROR, "it is down")
    [found] = assess_all(world.sources(), RUN, NOON).workloads
    assert found.assessment.judged is None
    assert found.settings == SETTINGS


def test_two_misses_in_a_row_make_the_pause_longer() -> None:
    """The second miss is found in this very round, and counts in it."""
    world = World()
    world.annotation = encode_last_rotation(rotated("2026-11-17T11:45:00Z", misses=1), format_time)
    [found] = assess_all(world.sources(), RUN, NOON).workloads
    assert found.assessment.judged is not None
    assert found.assessment.judged.misses == 2
    assert found.assessment.reason is Reason.COOLDOWN
