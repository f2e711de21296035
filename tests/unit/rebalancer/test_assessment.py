"""One workload, from what was read to who goes: section 6 of the facts, and which reason wins."""

from typing import Any

import pytest

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import Assessment, assess_all, with_guard
from slackwater.rebalancer.guards import GuardResult
from slackwater.rebalancer.observed import (
    HpaTarget,
    HpaTargetKind,
    NamespaceUsage,
    ObservedWorkload,
    Scaling,
    Unavailable,
    WorkloadName,
)
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import PodGroup
from slackwater.settings.rebalancer import MoveSettings, Removal, RunSettings, WorkloadSettings
from tests.unit.rebalancer.workloads import (
    F6,
    NAME,
    NAN,
    NOON,
    box,
    live,
    numbered,
    observed,
    rotated,
    usage,
)

WEB = WorkloadSettings("shop", "web")
ASKED = WorkloadName("shop", "workload", "web")
DOWN = Unavailable(Reason.PROMETHEUS_ERROR, "Prometheus does not answer")
NO_HPA = Unavailable(Reason.HPA_TARGET_MISSING, "no HPA scales web")
TWO_HPAS = Unavailable(Reason.HPA_TARGET_AMBIGUOUS, "web wants 70 %, keda-hpa-web wants 80 %")
OUT = 'the annotation slackwater.io/rotate is "false"'
HPA50 = HpaTarget(HpaTargetKind.UTILIZATION, 50, "web")
SEED = MoveSettings()
ROW7 = MoveSettings(top_k=3, tolerance=2.0, minimum_improvement=20.0)


class Fixed:
    """Sources with one answer each."""

    def __init__(
        self, workload: ObservedWorkload | Unavailable, used: NamespaceUsage | Unavailable
    ) -> None:
        self._workload = workload
        self._used = used

    def observe(self, _: WorkloadSettings) -> ObservedWorkload | Unavailable:
        return self._workload

    observe_again = observe

    def usage(self, _namespace: str, _window: Micros, _at: float) -> NamespaceUsage | Unavailable:
        return self._used

    def lag(self, _: WorkloadSettings) -> Gap:
        raise AssertionError("nobody asked for it")

    def halted(self) -> str:
        return ""


def assessed(
    workload: ObservedWorkload | Unavailable,
    used: NamespaceUsage | Unavailable,
    moves: MoveSettings = SEED,
) -> Assessment:
    settings = WorkloadSettings("shop", "web", moves=moves)
    run = RunSettings(workloads=(settings,), removal=Removal.DELETE)
    [found] = assess_all(Fixed(workload, used), run, NOON).assessments()
    return found


def of(usages: dict[str, Any], **other: Any) -> tuple[ObservedWorkload, NamespaceUsage]:
    return observed(*(live(name) for name in usages), **other), usage(usages)


def going(found: Assessment) -> str:
    return " ".join(each.name for each in found.proposal.rotate) if found.proposal else ""


@pytest.mark.parametrize(
    ("usages", "hpa_target", "moves", "rotate", "improvement", "batches"),
    [
        pytest.param(F6, None, SEED, "A B F E", 34.78, ["A F", "B E"], id="row 1"),
        pytest.param({**F6, "B": 1.0}, None, SEED, "A F E", 47.22, ["A F", "E"], id="row 3"),
        pytest.param(
            numbered(2.5, 2.4, 2.3, 1.0, 1.0, 1.0, 0.7, 0.6, 0.5),
            None,
            ROW7,
            "p1 p2 p3 p9 p8 p7",
            37.5,
            ["p1 p9", "p2 p8", "p3 p7"],
            id="row 7",
        ),
        pytest.param(
            numbered(1.2, 1.0, 0.8, 0.4, 0.3),
            None,
            SEED,
            "p1 p5 p4",
            47.22,
            ["p1", "p5", "p4"],
            id="row 11",
        ),
        pytest.param(
            {**F6, "F": NAN},
            None,
            SEED,
            "A B E D",
            28.26,
            ["A", "E", "B", "D"],
            id="row 15",
        ),
    ],
)
def test_section_6_what_is_rotated(
    usages: dict[str, Any],
    hpa_target: HpaTarget | None,
    moves: MoveSettings,
    rotate: str,
    improvement: float,
    batches: list[str],
) -> None:
    found = assessed(*of(usages, **({"hpa_target": hpa_target} if hpa_target else {})), moves)
    assert (found.workload, found.reason, found.rotates) == (NAME, None, True)
    assert going(found) == rotate
    assert [" ".join(each.name for each in batch) for batch in found.batches] == batches
    sentence, _, _ = found.because.partition("; ")
    least = moves.minimum_improvement
    assert sentence == f"Improvement {improvement:.1f}% exceeds minimum {least:.1f}%"
    assert found.proposal is not None
    assert found.proposal.numbers is not None
    assert found.proposal.numbers.gain is not None
    assert found.proposal.numbers.gain.improvement == pytest.approx(improvement, abs=0.005)
    assert all(guard.passed for guard in found.guards)


@pytest.mark.parametrize(
    ("usages", "other", "reason", "because"),
    [
        pytest.param(
            numbered(0.9, 0.85, 0.8, 0.75),
            {"hpa_target": HPA50},
            Reason.INSUFFICIENT_IMPROVEMENT,
            "Improvement 5.7% below minimum 10.0%",
            id="row 5",
        ),
        pytest.param(
            numbered(1.5, 1.2, 0.2),
            {},
            Reason.MIN_PODS,
            "deletion would leave 0 pods, minimum required is 2",
            id="row 9",
        ),
        pytest.param(F6, {"hpa_target": NO_HPA}, NO_HPA.reason, NO_HPA.because, id="row 13, none"),
        pytest.param(
            F6, {"hpa_target": TWO_HPAS}, TWO_HPAS.reason, TWO_HPAS.because, id="row 13, two"
        ),
        pytest.param(
            numbered(*[1.3] * 6),
            {},
            Reason.INSUFFICIENT_IMPROVEMENT,
            "Improvement 0.0% below minimum 10.0%",
            id="row 21",
        ),
        pytest.param(
            F6,
            {"scaling": Scaling(8, 6)},
            Reason.HPA_SCALING,
            "the HPA scales from 6 to 8 pods",
            id="row 23, scaling",
        ),
        pytest.param(
            F6,
            {"last": rotated("2026-11-17T11:56:00Z")},
            Reason.COOLDOWN,
            "last rotated 4m ago, the pause is 10m",
            id="row 23, cooldown",
        ),
    ],
)
def test_section_6_what_is_not(
    usages: dict[str, Any], other: dict[str, Any], reason: Reason, because: str
) -> None:
    found = assessed(*of(usages, **other))
    assert (found.reason, found.because, found.rotates) == (reason, because, False)
    assert found.batches == ()
    assert found.measured is not None
    assert found.proposal is not None
    assert set(found.proposal.groups) == set(usages)


def test_section_6_row_17() -> None:
    held = live("A", held_back='the annotation slackwater.io/rotate is "false"')
    rest = [live(name) for name in F6 if name != "A"]
    found = assessed(observed(held, *rest), usage())
    assert going(found) == "B F E"
    assert found.because == "Improvement 45.5% exceeds minimum 10.0%"
    assert found.proposal is not None
    assert found.proposal.groups["A"] is PodGroup.HELD_BACK


@pytest.mark.parametrize(
    ("workload", "used", "reason"),
    [
        # What could not be read goes before all.
        (Unavailable(Reason.KUBERNETES_ERROR, "403"), usage(), Reason.KUBERNETES_ERROR),
        (Unavailable(Reason.WORKLOAD_MISSING, "none"), DOWN, Reason.WORKLOAD_MISSING),
        (observed(), DOWN, Reason.PROMETHEUS_ERROR),
        (observed(hpa_target=NO_HPA), DOWN, Reason.PROMETHEUS_ERROR),
        # Who wants no rotation hears no other reason.
        (observed(opted_out=OUT), usage(), Reason.OPTED_OUT),
        (observed(opted_out=OUT), DOWN, Reason.OPTED_OUT),
        (observed(opted_out=OUT, hpa_target=NO_HPA), usage(), Reason.OPTED_OUT),
        (observed(opted_out=OUT), usage(dict.fromkeys(F6, 0.1)), Reason.OPTED_OUT),
        (observed(opted_out=OUT, scaling=Scaling(8, 6)), usage(), Reason.OPTED_OUT),
        # Nothing to do goes before what would forbid it.
        (
            observed(scaling=Scaling(8, 6), last=rotated("2026-11-17T11:59:00Z")),
            usage(dict.fromkeys(F6, 0.1)),
            Reason.NO_PODS_ABOVE_TOLERANCE,
        ),
        # The first guard gives the reason.
        (
            observed(scaling=Scaling(8, 6, "a rollout"), last=Gap("no JSON")),
            usage(),
            Reason.HPA_SCALING,
        ),
        (
            observed(scaling=Scaling(6, 6, "a rollout"), last=Gap("no JSON")),
            usage(),
            Reason.ROLLOUT_IN_PROGRESS,
        ),
        (observed(last=Gap("no JSON")), usage(), Reason.COOLDOWN_UNKNOWN),
        (
            observed(*(live(name, box(limit=0.8)) for name in F6)),
            usage(),
            Reason.CAPACITY_GUARD,
        ),
        # Prometheus is up and knows nothing.
        (observed(), usage({}), Reason.NO_USAGE_DATA),
        (
            observed(*(live(name, box(request=Gap("none"))) for name in F6)),
            usage(),
            Reason.REQUEST_MISSING,
        ),
    ],
)
def test_which_reason_wins(
    workload: ObservedWorkload | Unavailable, used: NamespaceUsage | Unavailable, reason: Reason
) -> None:
    found = assessed(workload, used)
    assert found.reason is reason
    assert found.because
    assert found.batches == ()


def test_a_workload_that_could_not_be_read_keeps_the_asked_name() -> None:
    assert assessed(Unavailable(Reason.WORKLOAD_MISSING, "none"), usage()).workload == ASKED
    assert assessed(observed(), DOWN).workload == NAME


def test_guards_are_told_also_where_nothing_is_to_do() -> None:
    found = assessed(observed(scaling=Scaling(8, 6)), usage(dict.fromkeys(F6, 0.1)))
    assert {guard.guard: guard.passed for guard in found.guards} == {
        "opted_out": True,
        "hpa_scaling": False,
        "rollout": True,
        "cooldown": True,
        "minimum_pods": True,
        "capacity": True,
    }


def test_the_opt_out_is_a_guard_without_usage_too() -> None:
    (guard,) = assessed(observed(opted_out=OUT), DOWN).guards
    assert (guard.guard, guard.passed, guard.because) == ("opted_out", False, OUT)


LAG = GuardResult("kafka_lag", False, "the lag is 1200, above 1000", Reason.KAFKA_LAG_HIGH)


def test_another_guard_forbids_it() -> None:
    before = assessed(observed(), usage())
    found = with_guard(before, LAG)
    assert (found.reason, found.because, found.batches) == (LAG.reason, LAG.because, ())
    assert found.guards == (*before.guards, LAG)
    assert (found.proposal, found.measured) == (before.proposal, before.measured)


def test_another_guard_lets_it_pass() -> None:
    before = assessed(observed(), usage())
    low = GuardResult("kafka_lag", True, "the lag is 3")
    found = with_guard(before, low)
    assert found.rotates
    assert (found.batches, found.because) == (before.batches, before.because)
    assert found.guards[-1] == low


def test_a_later_guard_does_not_replace_the_reason() -> None:
    found = with_guard(assessed(observed(scaling=Scaling(8, 6)), usage()), LAG)
    assert found.reason is Reason.HPA_SCALING
    assert found.guards[-1] == LAG


def test_a_guard_forbids_with_a_reason_or_it_is_broken() -> None:
    with pytest.raises(ValueError, match="the guard odd forbids without a reason"):
        with_guard(assessed(observed(), usage()), GuardResult("odd", False, "because"))


def test_the_aim_in_cores() -> None:
    """An AverageValue is not a percent of anything."""
    hpa_target = HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.7, "web")
    pods = [live(name, box(request=Gap("none"))) for name in F6]
    found = assessed(observed(*pods, hpa_target=hpa_target), usage())
    assert going(found) == "A B F E"
