"""The seed's algorithm, with the numbers of the facts: who goes, what it brings, why not."""

import math
from typing import Any

import msgspec
import pytest

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.observed import Cores, HpaTarget, HpaTargetKind, PodUsage, WorkloadUsage
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import (
    Capacity,
    PodGroup,
    Proposal,
    batch_size,
    interleave,
    is_above,
    judge_gain,
    measure_capacity,
    predict_gain,
    propose,
    split_into_batches,
)
from slackwater.settings.rebalancer import MoveSettings
from tests.unit.rebalancer.workloads import (
    F6,
    HPA70,
    NAN,
    all_with,
    measured,
    names,
    numbered,
    pod_usage,
)

SEED = MoveSettings()
STILL_HOT = (
    "; 1.47 cores on average are still above the threshold 1.05, so it takes more pods as well, "
    "which is for the HPA"
)
NO_TOPS = "No pods exceed tolerance threshold (1.5x of HPA target)"
MINUTE = 60_000_000


def approximately(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, abs=1e-9)


def test_the_seed_s_example() -> None:
    found = propose(measured(), SEED)
    assert found.reason is None
    assert found.because == "Improvement 34.8% exceeds minimum 10.0%"
    assert names(found) == "A B F E"
    assert [found.groups[each.name] for each in found.rotate] == [PodGroup.TOP] * 2 + [
        PodGroup.BOTTOM
    ] * 2
    assert found.numbers is not None
    assert found.numbers.gain is not None
    numbers = (
        *msgspec.structs.astuple(found.numbers)[:3],
        *msgspec.structs.astuple(found.numbers.gain),
    )
    assert numbers == pytest.approx((0.7, 1.05, 1.0, 1.15, 0.75, 0.4 / 1.15 * 100))
    assert {name: group.value for name, group in found.groups.items()} == {
        "A": "top", "B": "top", "C": "rest", "D": "rest", "E": "bottom", "F": "bottom",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("usages", "percent", "settings", "rotate", "average", "predicted", "improvement", "because"),
    [
        # Section 3, row 9, and section 6, row 1.
        (F6, 70, SEED, "A B F E", 1.15, 0.75, 34.7826087, "34.8% exceeds minimum 10.0%"),
        # Section 3, row 11, and section 6, row 5.
        (
            numbered(0.9, 0.85, 0.8, 0.75),
            50,
            SEED,
            "",
            0.875,
            0.825,
            5.7142857,
            "5.7% below minimum 10.0%",
        ),
        # Section 3, row 12, and section 6, row 7.
        (
            numbered(2.5, 2.4, 2.3, 1.0, 1.0, 1.0, 0.7, 0.6, 0.5),
            70,
            MoveSettings(top_k=3, tolerance=2.0, minimum_improvement=20.0),
            "p1 p2 p3 p9 p8 p7",
            2.4,
            1.5,
            37.5,
            "37.5% exceeds minimum 20.0%",
        ),
        # Section 6, row 3: one hot pod, both cold ones.
        ({**F6, "B": 1.0}, 70, SEED, "A F E", 1.2, 1.9 / 3, 47.2222222, "47.2% exceeds"),
        # Row 9: two hot ones and a third pod; nobody twice. The minimum refuses it later.
        (numbered(1.5, 1.2, 0.2), 70, SEED, "p1 p2 p3", 1.35, 2.9 / 3, 28.3950617, "28.4% exc"),
        # Row 11.
        (
            numbered(1.2, 1.0, 0.8, 0.4, 0.3),
            70,
            SEED,
            "p1 p5 p4",
            1.2,
            1.9 / 3,
            47.2222222,
            "47.2% exceeds",
        ),
        # Row 15.
        ({**F6, "F": NAN}, 70, SEED, "A B E D", 1.15, 0.825, 28.2608696, "28.3% exceeds"),
        # Row 21: scaling is the HPA's job.
        (numbered(*[1.3] * 6), 70, SEED, "", 1.3, 1.3, 0.0, "0.0% below minimum 10.0%"),
        # Only hot ones, and one alone: nobody to even out with.
        (numbered(1.3, 1.2), 70, SEED, "", 1.25, 1.25, 0.0, "0.0% below"),
        (numbered(1.3), 70, SEED, "", 1.3, 1.3, 0.0, "0.0% below"),
        # K may be more than there are.
        (F6, 70, MoveSettings(top_k=50), "A B F E D C", 1.15, 4.4 / 6, 36.2318841, "36.2% exc"),
        (F6, 70, MoveSettings(top_k=1), "A F", 1.2, 0.75, 37.5, "37.5% exceeds minimum 10.0%"),
        # Zero is not enough where nothing is asked for; anything more is.
        (
            numbered(*[1.3] * 3),
            70,
            MoveSettings(minimum_improvement=0.0),
            "",
            1.3,
            1.3,
            0.0,
            "Improvement 0.0% below minimum 0.0%",
        ),
        (
            numbered(1.31, 1.3, 1.3),
            70,
            MoveSettings(top_k=1, minimum_improvement=0.0),
            "p1 p2",
            1.31,
            1.305,
            0.3816794,
            "0.4% exceeds minimum 0.0%",
        ),
    ],
)
def test_hot_and_cold(
    usages: dict[str, float],
    percent: float,
    settings: MoveSettings,
    rotate: str,
    average: float,
    predicted: float,
    improvement: float,
    because: str,
) -> None:
    found = propose(
        measured(usages, HpaTarget(HpaTargetKind.UTILIZATION, percent, "web")), settings
    )
    assert names(found) == rotate
    assert found.reason is (None if rotate else Reason.INSUFFICIENT_IMPROVEMENT)
    assert because in found.because
    assert found.numbers is not None
    assert found.numbers.gain is not None
    assert msgspec.structs.astuple(found.numbers.gain) == pytest.approx(
        (average, predicted, improvement), abs=1e-7
    )


@pytest.mark.parametrize(
    ("usages", "tolerance", "text"),
    [
        # Section 3, row 10.
        (numbered(0.9, 0.8, 0.7), 1.5, NO_TOPS),
        # 70 / 100 x 1.5 is a little less than 1.05; 1.05 is not above it all the same.
        (numbered(1.05, 0.1), 1.5, NO_TOPS),
        (numbered(1.05 + 1e-12, 0.1), 1.5, NO_TOPS),
        (numbered(0.7, 0.1), 1.0, NO_TOPS.replace("1.5", "1.0")),
        # The text has one digit; the threshold has all: 0.875 here.
        (numbered(0.875, 0.1), 1.25, NO_TOPS.replace("1.5", "1.2")),
    ],
)
def test_nobody_above_the_threshold(usages: dict[str, float], tolerance: float, text: str) -> None:
    found = propose(measured(usages), MoveSettings(tolerance=tolerance))
    assert (found.reason, found.because) == (Reason.NO_PODS_ABOVE_TOLERANCE, text)
    assert found.rotate == ()
    assert set(found.groups.values()) == {PodGroup.REST}
    assert found.numbers is not None
    assert found.numbers.threshold == pytest.approx(0.7 * tolerance)
    assert found.numbers.gain is None


def test_what_is_nominally_the_minimum_is_not_enough_in_any_order() -> None:
    usages = numbered(1.0, 1.0, 0.8, 0.8)
    low = HpaTarget(HpaTargetKind.UTILIZATION, 50, "web")
    for order in (usages, dict(reversed(usages.items()))):
        found = propose(measured(order, low), SEED)
        assert found.reason is Reason.INSUFFICIENT_IMPROVEMENT
        assert found.because == "Improvement 10.0% below minimum 10.0%"


def test_equal_pods_are_taken_by_name() -> None:
    usages = dict(zip("hgfedcba", [1.3] * 4 + [0.2] * 4, strict=True))
    assert names(propose(measured(usages), SEED)) == "e f a b"


@pytest.mark.parametrize(
    ("different", "rotate", "group"),
    [
        # Section 6, row 17: who is held back is no candidate at all.
        ({"A": {"held_back": "slackwater.io/rotate"}}, "B F E", PodGroup.HELD_BACK),
        # A young pod's rate is of the time before it as well.
        ({"F": {"age": 299.9}}, "A B E D", PodGroup.YOUNG),
        ({"F": {"age": 300.0}}, "A B F E", PodGroup.BOTTOM),
        ({"A": {"age": 10.0}}, "B F E", PodGroup.YOUNG),
        # Who is not Ready may be hot, and is never cold.
        ({"F": {"ready": False}}, "A B E D", PodGroup.UNREADY),
        ({"A": {"ready": False}}, "A B F E", PodGroup.TOP),
        ({"D": {"ready": False}}, "A B F E", PodGroup.UNREADY),
        # Who goes already, or does not run, is left alone.
        ({"A": {"terminating": True}}, "B F E", PodGroup.UNREADY),
        ({"A": {"running": False, "ready": False}}, "B F E", PodGroup.UNREADY),
        # A pod that has just come has no usage, and that is no fault.
        ({"F": {"age": 1.0, "usage": Gap("none yet")}}, "A B E D", PodGroup.YOUNG),
        ({"F": {"usage": NAN}}, "A B E D", PodGroup.UNKNOWN),
    ],
)
def test_who_is_a_candidate(different: dict[str, Any], rotate: str, group: PodGroup) -> None:
    ((name, other),) = different.items()
    usages = {**F6, name: other.pop("usage", F6[name])}
    found = propose(measured(usages, **{name: other}), SEED)
    assert names(found) == rotate
    assert found.groups[name] is group


def test_row_17_s_numbers() -> None:
    found = propose(measured(A={"held_back": "slackwater.io/rotate"}), SEED)
    assert found.numbers is not None
    assert found.numbers.gain is not None
    assert found.numbers.gain.average == pytest.approx(1.1)
    assert found.numbers.gain.predicted == pytest.approx(0.6)
    assert found.because == "Improvement 45.5% exceeds minimum 10.0%"


def test_the_minimum_age_is_a_setting() -> None:
    fresh = measured(F={"age": 20.0})
    assert names(propose(fresh, MoveSettings(minimum_pod_age=Micros(0)))) == "A B F E"
    assert names(propose(fresh, MoveSettings(minimum_pod_age=Micros(20_000_000)))) == "A B F E"
    assert names(propose(fresh, MoveSettings(minimum_pod_age=Micros(20_000_001)))) == "A B E D"
    assert names(propose(fresh, MoveSettings(window=Micros(MINUTE // 6)))) == "A B F E"


@pytest.mark.parametrize(
    ("hpa_target", "requests", "target", "average", "remark"),
    [
        (HPA70, {}, 0.7, 1.0, ""),
        # In the middle of a rollout: the average of what there is.
        (HPA70, {"A": 0.5, "B": 0.5, "C": 0.5}, 0.525, 0.75, ""),
        (
            HPA70,
            {"A": Gap("none"), "F": Gap("none")},
            0.7,
            1.0,
            "; 2 of 6 pods have no CPU request",
        ),
        # Cores are cores: a request is not needed, and not multiplied with.
        (HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.5, "web"), {}, 0.5, 1.0, ""),
        (
            HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.5, "web"),
            dict.fromkeys(F6, 0.25),
            0.5,
            0.25,
            "",
        ),
        (
            HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.5, "web"),
            dict.fromkeys(F6, Gap("none")),
            0.5,
            None,
            "",
        ),
        (HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.5, "web"), {"A": Gap("none")}, 0.5, 1.0, ""),
    ],
)
def test_the_target(
    hpa_target: HpaTarget,
    requests: dict[str, Any],
    target: float,
    average: float | None,
    remark: str,
) -> None:
    found = propose(
        measured(F6, hpa_target, **{k: {"request": v} for k, v in requests.items()}), SEED
    )
    assert found.numbers is not None
    assert found.numbers.target == pytest.approx(target)
    assert found.numbers.threshold == pytest.approx(target * 1.5)
    assert found.numbers.request == approximately(average)
    assert found.because == "Improvement 34.8% exceeds minimum 10.0%" + remark


def test_requests_of_pods_that_are_no_candidates_do_not_count() -> None:
    """The original's average is over pods of every phase."""
    gone = {"request": 9.0, "running": False, "ready": False}
    found = propose(measured({**F6, "G": 0.0}, G=gone), SEED)
    assert found.numbers is not None
    assert found.numbers.request == 1.0


@pytest.mark.parametrize(
    ("usages", "different", "reason", "because"),
    [
        (F6, {"request": Gap("container web has none")}, Reason.REQUEST_MISSING,
         "no pod has a CPU request to take the HPA's percent of: container web has none"),
        (dict.fromkeys(F6, Gap("no usage of container web")), {}, Reason.NO_USAGE_DATA,
         "no usage of any pod is known, 6 asked for: no usage of container web"),
        (F6, {"held_back": "nobody would replace it"}, Reason.OPTED_OUT,
         "all pods that could go are held back: nobody would replace it"),
        (F6, {"age": 12.0}, Reason.PODS_TOO_YOUNG,
         "all 6 pods are younger than 5m (minimumPodAge)"),
        ({"A": 1.2}, {"age": 12.0}, Reason.PODS_TOO_YOUNG,
         "the only pod is younger than 5m (minimumPodAge)"),
        (F6, {"terminating": True}, Reason.NO_PODS_ABOVE_TOLERANCE,
         f"{NO_TOPS}; none of its pods runs"),
        # Scaled to nothing: nothing is wrong.
        ({}, {}, Reason.NO_PODS_ABOVE_TOLERANCE,
         f"{NO_TOPS}; it has no pods"),
    ],
)  # fmt: skip
def test_why_it_cannot_be_said(
    usages: dict[str, Any], different: dict[str, Any], reason: Reason, because: str
) -> None:
    found = propose(measured(usages, **all_with(usages, **different)), SEED)
    assert (found.rotate, found.reason, found.because) == ((), reason, because)
    assert found.numbers is None
    assert set(found.groups) == set(usages)


@pytest.mark.parametrize(("young", "are"), [("A", "1 of 6 pods is"), ("ABCD", "4 of 6 pods are")])
def test_young_ones_and_others_that_do_not_run(young: str, are: str) -> None:
    different = {name: {"age": 12.0} if name in young else {"running": False} for name in F6}
    found = propose(measured(**different), SEED)
    assert found.reason is Reason.PODS_TOO_YOUNG
    assert found.because == (f"{are} younger than 5m (minimumPodAge), and the others do not run")


@pytest.mark.parametrize(
    ("unknown", "because"),
    [
        ("CDEF", "Improvement 0.0% below minimum 10.0%; 4 of 6 pods have no usage"),
        ("ABCD", f"{NO_TOPS}; 4 of 6 pods have no usage"),
        ("F", "Improvement 28.3% exceeds minimum 10.0%; 1 of 6 pods has no usage"),
    ],
)
def test_usage_that_is_partly_unknown_is_told(unknown: str, because: str) -> None:
    usages = {name: NAN if name in unknown else used for name, used in F6.items()}
    assert propose(measured(usages), SEED).because == because


def test_who_is_no_candidate_anyway_does_not_lack_usage() -> None:
    found = propose(measured({**F6, "F": NAN}, F={"running": False}), SEED)
    assert found.because == "Improvement 28.3% exceeds minimum 10.0%"


@pytest.mark.parametrize(
    ("usages", "remark"),
    [
        (numbered(2.8, 2.78, 0.2, 0.1), STILL_HOT),
        # At the threshold is not above it.
        (numbered(1.9, 1.9, 0.2, 0.2), ""),
    ],
)
def test_who_stays_hot_needs_the_hpa(usages: dict[str, float], remark: str) -> None:
    found = propose(measured(usages), SEED)
    assert found.reason is None
    assert found.because.partition("minimum 10.0%")[2] == remark


def test_of_several_sentences_always_the_same_is_told() -> None:
    gaps = {"A": Gap("b: no series"), "B": Gap("a: NaN"), "C": Gap("c: infinite")}
    assert propose(measured(gaps), SEED).because.endswith("3 asked for: for example, a: NaN")
    lacking = {name: {"request": gap} for name, gap in gaps.items()}
    three = numbered(1.0, 1.0, 1.0)
    by_pod = dict(zip(three, lacking.values(), strict=True))
    assert propose(measured(three, **by_pod), SEED).because.endswith(
        "percent of: for example, a: NaN"
    )
    held = {"p1": {"held_back": "y"}, "p2": {"held_back": "x"}, "p3": {"held_back": "z"}}
    assert propose(measured(three, **held), SEED).because.endswith("held back: for example, x")


def test_without_a_target_nothing_is_said() -> None:
    found = propose(measured(F6, Gap("no HPA scales web")), SEED)
    assert (found.rotate, found.reason) == ((), Reason.HPA_TARGET_MISSING)
    assert found.because == "no HPA scales web"


@pytest.mark.parametrize(
    ("value", "bound", "found"),
    [(1.0, 1.0, False), (1.0 + 1e-10, 1.0, False), (1.0 + 1e-8, 1.0, True), (0.9, 1.0, False),
     (1e-12, 0.0, False), (1e-6, 0.0, True), (0.1 + 0.2, 0.3, False)],
)  # fmt: skip
def test_above(value: float, bound: float, found: bool) -> None:
    assert is_above(value, bound) is found


def test_the_gain_in_closed_form() -> None:
    """Facts 1.3: nb / (nt + nb) x (1 - average of the cold / average of the hot) x 100."""

    def of(*usages: float) -> list[PodUsage]:
        return [pod_usage(f"{usage}", usage) for usage in usages]

    gain = predict_gain(of(3.0), of(0.0, 0.0))
    assert gain.improvement == pytest.approx(200 / 3)
    assert judge_gain(gain, MoveSettings(minimum_improvement=66.0))[0] is None
    too_much = judge_gain(gain, MoveSettings(minimum_improvement=67.0))
    assert too_much == (Reason.INSUFFICIENT_IMPROVEMENT, "Improvement 66.7% below minimum 67.0%")
    assert predict_gain(of(2.0, 1.0), of(0.0)).improvement == pytest.approx(1 / 3 * 100)


ROW7 = MoveSettings(top_k=3, tolerance=2.0, minimum_improvement=20.0)
HALF = numbered(1.2, 1.1, *[0.2] * 20)


def grouped(found: WorkloadUsage, settings: MoveSettings = SEED) -> list[str]:
    batches = split_into_batches(propose(found, settings), found, settings)
    return [" ".join(each.name for each in batch) for batch in batches]


@pytest.mark.parametrize(
    ("usages", "settings", "batches"),
    [
        # 4.4 cores: 1.10 each with two away, above 1.05, but no more than A uses now.
        (F6, SEED, ["A F", "B E"]),
        # 4.3 on four: the same. The third has no partner.
        ({**F6, "B": 1.0}, SEED, ["A F", "E"]),
        # 12 on seven are 1.71: far above 1.40, and below the 2.5 of the hottest.
        (
            numbered(2.5, 2.4, 2.3, 1.0, 1.0, 1.0, 0.7, 0.6, 0.5),
            ROW7,
            ["p1 p9", "p2 p8", "p3 p7"],
        ),
        # 3.7 on three are 1.23, more than the hottest's 1.2: one by one.
        (numbered(1.2, 1.0, 0.8, 0.4, 0.3), SEED, ["p1", "p5", "p4"]),
        # Plenty of room: all at once.
        (HALF, SEED, ["p1 p10 p2 p11"]),
        # Room for three of four: pairs are not torn apart.
        (numbered(1.2, 1.1, 0.3, 0.3, 0.3, 0.3, 0.3), SEED, ["p1 p3", "p2 p4"]),
        # The setting bounds it, and never widens it.
        (HALF, MoveSettings(batch=1), ["p1", "p10", "p2", "p11"]),
        (HALF, MoveSettings(batch=2), ["p1 p10", "p2 p11"]),
        (HALF, MoveSettings(batch=3), ["p1 p10", "p2 p11"]),
        (HALF, MoveSettings(batch=99), ["p1 p10 p2 p11"]),
        (F6, MoveSettings(batch=4), ["A F", "B E"]),
        # Nobody is to go.
        (numbered(0.9, 0.8), SEED, []),
    ],
)
def test_batches(usages: dict[str, float], settings: MoveSettings, batches: list[str]) -> None:
    assert grouped(measured(usages), settings) == batches


@pytest.mark.parametrize("most", [0, 3, 4])
def test_an_odd_number_goes_at_once_where_it_fits(most: int) -> None:
    found = measured(numbered(1.2, *[0.2] * 20))
    assert grouped(found, MoveSettings(batch=most)) == ["p1 p10 p11"]


@pytest.mark.parametrize(
    ("different", "batches"),
    [
        # A limit says what a pod can carry; the smallest counts.
        (all_with(limit=2.0), ["A F", "B E"]),
        (all_with(limit=1.0), ["A", "F", "B", "E"]),
        ({**all_with(limit=2.0), "C": {"limit": 0.9}}, ["A", "F", "B", "E"]),
        (all_with(limit=0.8), []),
        # Where one has none, nobody's counts.
        ({name: {"limit": 0.8} for name in "ABCDE"}, ["A F", "B E"]),
        # Who is not Ready carries nothing: 3.6 on three are 1.2.
        ({"C": {"ready": False}}, ["A F", "B E"]),
        ({"C": {"terminating": True}}, ["A F", "B E"]),
        # Its load must still be carried where it is to go itself: 4.4 on three are too much.
        ({"A": {"ready": False}}, ["A", "F", "B", "E"]),
        # A young pod stays and carries, as much as the average already: 4.56 on four.
        ({"D": {"age": 60.0}}, ["A F", "B E"]),
        # Who is held back carries like any other.
        ({"C": {"held_back": "an annotation"}}, ["A F", "B E"]),
    ],
)
def test_what_the_others_can_carry(different: dict[str, Any], batches: list[str]) -> None:
    assert grouped(measured(**different)) == batches


def test_unknown_use_is_not_taken_for_idle() -> None:
    """Section 6, row 15: 4.1 cores on three are too much; C to F do not hide it."""
    assert grouped(measured({**F6, "F": NAN})) == ["A", "E", "B", "D"]


@pytest.mark.parametrize(
    ("different", "carriers", "load"),
    [
        ({}, 6, 4.4),
        ({"held_back": "an annotation"}, 6, 4.4),
        ({"ready": False}, 5, 3.6),
        ({"terminating": True}, 5, 3.6),
        ({"running": False}, 5, 3.6),
        # Young, and busier than the average of the others (3.6 / 5) all the same.
        ({"age": 299.0}, 6, 4.4),
    ],
)
def test_who_carries(different: dict[str, object], carriers: int, load: float) -> None:
    found = measured(C=different)
    room = measure_capacity(propose(found, SEED), found, SEED)
    assert room.carriers == carriers
    assert room.load == pytest.approx(load)


@pytest.mark.parametrize("different", [{}, {"held_back": "an annotation"}, {"age": 10.0}])
@pytest.mark.parametrize("usage", [NAN, 0.0])
def test_a_carrier_of_unknown_use_counts_like_the_average(
    usage: float | Gap, different: dict[str, object]
) -> None:
    """It stays and takes load over, but what it carries already is not nothing."""
    if not isinstance(usage, Gap):
        different = {**different, "age": 10.0}
    found = measured({**F6, "C": usage}, C=different)
    room = measure_capacity(propose(found, SEED), found, SEED)
    assert room.carriers == 6
    assert room.load == pytest.approx(3.6 / 5 * 6)


def test_a_young_pod_that_is_busier_than_the_average_counts_as_it_is() -> None:
    found = measured({**F6, "C": 1.0}, C={"age": 10.0})
    assert measure_capacity(propose(found, SEED), found, SEED).load == pytest.approx(4.6)


@pytest.mark.parametrize(
    ("load", "carriers", "most", "bound", "size"),
    [
        (4.4, 6, 1.2, 1.05, 2),
        (4.4, 6, 1.05, 1.05, 1),
        (4.4, 6, 0.9, 0.9, 1),
        (4.4, 6, 0.8, 0.8, 0),
        (1.0, 10, 1.05, 1.05, 9),
        # 1.05 x 4 is as much as may be.
        (1.05 * 4, 6, 1.05, 1.05, 2),
        (1.0, 1, 9.0, 9.0, 0),
        (0.0, 0, 9.0, 9.0, 0),
        (0.0, 2, 0.0, 0.0, 1),
    ],
)
def test_the_size(load: float, carriers: int, most: float, bound: float, size: int) -> None:
    assert Capacity(Cores(load), carriers, Cores(most), Cores(bound), "").size() == size


def test_nobody_left_carries_nothing() -> None:
    room = Capacity(Cores(1.0), 2, Cores(9.0), Cores(9.0), "")
    assert (room.each(1), room.each(2), room.each(3)) == (1.0, math.inf, math.inf)


def test_a_limit_below_the_threshold_bounds_all_sizes() -> None:
    found = measured(HALF, **all_with(HALF, limit=0.35))
    room = measure_capacity(propose(found, SEED), found, SEED)
    assert (room.most, room.bound) == (0.35, 0.35)
    assert room.load == pytest.approx(6.3)
    assert room.size() == 4


def test_hot_ones_and_cold_ones_alternate() -> None:
    def of(names: str) -> list[PodUsage]:
        return [pod_usage(name, 1.0) for name in names]

    assert "".join(each.name for each in interleave(of("abc"), of("xy"))) == "axbyc"


def test_without_numbers_nobody_goes() -> None:
    nothing = Proposal((), None, "", {})
    found = measured(dict.fromkeys(F6, Gap("none")))
    room = measure_capacity(nothing, found, SEED)
    assert (room.load, room.carriers) == (0.0, 0)
    assert batch_size(room, nothing, SEED) == 0
    assert split_into_batches(nothing, found, SEED) == ()
