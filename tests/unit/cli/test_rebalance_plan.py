"""The plan for people: every number that decides, at 80 columns, in a pipe, without colour."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from slackwater.cli.rebalance_plan import blocks, cores
from slackwater.model.gap import Gap
from slackwater.rebalancer.assessment import Assessment, assess
from slackwater.rebalancer.observed import Cores, HpaTarget, HpaTargetKind, NoAutoscaler, Scaling
from slackwater.rebalancer.plan_view import LeftOutView, PlanView, view_of
from slackwater.rebalancer.reason import Reason
from slackwater.settings.rebalancer import RequestSource, WorkloadSettings
from tests.unit.rebalancer.workloads import F6, NAME, NOON, box, live, observed, usage

SETTINGS = WorkloadSettings("shop", "web")


def view(**pods: float | Gap) -> PlanView:
    usages = pods or F6
    world = observed(*(live(name) for name in usages))
    return view_of(assess(world, usage(usages), SETTINGS, RequestSource.AUTO, NOON))


def lines(views: Sequence[PlanView], width: int = 80, wide: bool = False) -> list[str]:
    console = Console(highlight=False, width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        for block in blocks(views, width, wide):
            console.print(block)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_seed_s_example_at_80_columns() -> None:
    assert lines([view()]) == [
        "Deployment shop/web: rotate 4 of 6 pods",
        "HPA web wants 70 % of the request (1.00 on average) = 0.70 cores for each pod;",
        "hot is above 1.05",
        "Usage is that of the container web",
        "",
        "pod  group   usage  of request  of target",
        "A    top      1.20     120.0 %    171.4 %  ██████████████████┊████████┃████",
        "B    top      1.10     110.0 %    157.1 %  ██████████████████┊████████┃█",
        "C             0.80      80.0 %    114.3 %  ██████████████████┊██      ┃",
        "D             0.60      60.0 %     85.7 %  ████████████████  ┊        ┃",
        "E    bottom   0.40      40.0 %     57.1 %  ███████████       ┊        ┃",
        "F    bottom   0.30      30.0 %     42.9 %  ████████          ┊        ┃",
        "  ┊ target 0.70   ┃ threshold 1.05   cores",
        "",
        "Improvement 34.8% exceeds minimum 10.0%",
        "With a rotation: the hot pods' average 1.15 -> 0.75 cores (34.8 % less)",
        "",
        "✓  opted out     no annotation of the workload forbids it",
        "✓  hpa scaling   the HPA wants 6 pods, and there are 6",
        "✓  rollout       no rollout is in flight",
        "✓  cooldown      it was not rotated before",
        "✓  minimum pods  2 of 6 Ready pods stay, minimum required is 2",
        "✓  capacity      with 2 away at once the other 4 carry 1.10 cores each, at most",
        "                 1.20 (what the hottest carries today)",
        "",
        "run would rotate, each batch once the one before is replaced and Ready:",
        "  1. A, F",
        "  2. B, E",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 110, 120, 200])
@pytest.mark.parametrize(
    "start", ["checkout-frontend-7d9c5b6f4-8pr7", "web-6bf8d7c9b5-8pr7", "db-"]
)
def test_it_fits(start: str, width: int) -> None:
    """Each pod is one line, of the terminal as of the console."""
    long = {f"{start}{name}": used for name, used in F6.items()}
    told = lines([view(**long)], width)
    assert max(map(len, told)) <= width
    rows = [line for line in told if "top " in line or "bottom " in line]
    assert [line.split()[1] for line in rows] == ["top", "top", "bottom", "bottom"]
    # Pods are told apart by their ends, so those stay.
    for name in F6:
        assert any(line.split()[0].endswith(start[-4:] + name) for line in told if line.strip())


@pytest.mark.parametrize(
    ("width", "row"),
    [
        # What a narrow screen does without: the bar, then shares.
        (40, "web-6b…5-8pr7A  top      1.20    171.4 %"),
        (60, "web-6bf8d7c9b5-8pr7A  top      1.20     120.0 %    171.4 %"),
        (70, "web-6bf8d7c9b5-8pr7A  top      1.20     120.0 %    171.4 %  █████┊██┃█"),
    ],
)
def test_what_gives_way(width: int, row: str) -> None:
    told = lines([view(**{f"web-6bf8d7c9b5-8pr7{name}": used for name, used in F6.items()})], width)
    assert row in told
    assert any("┊ target" in line for line in told) == ("┊" in row)


def test_a_long_group_leaves_the_usage() -> None:
    world = observed(*(live(name, held_back="it says so" if name == "A" else "") for name in F6))
    told = lines([view_of(assess(world, usage(), SETTINGS, RequestSource.AUTO, NOON))], 30)
    assert "A    held back   1.20" in told


def test_a_busy_sidecar_is_told() -> None:
    """The HPA names a container: what the others use is not in the decision."""
    both = (box("web"), box("proxy"))
    pods = observed(*(live(name, *both) for name in F6))
    used = usage()
    used.usage.update({("A", "proxy"): Cores(0.2), ("B", "proxy"): Cores(3.0)})
    found = view_of(assess(pods, used, SETTINGS, RequestSource.AUTO, NOON))
    assert (found.container, found.left_out) == ("web", (LeftOutView("proxy", 3.0),))
    assert "Usage is that of the container web; not counted: proxy (up to 3.00)" in lines([found])


def test_all_containers_are_told_as_well() -> None:
    settings = msgspec.structs.replace(SETTINGS, container="*")
    found = view_of(assess(observed(), usage(), settings, RequestSource.AUTO, NOON))
    assert (found.container, found.left_out) == ("*", ())
    assert "Usage is that of all containers of a pod" in lines([found])


def test_a_guard_that_cannot_say_is_not_passed() -> None:
    none = NoAutoscaler(Reason.HPA_TARGET_MISSING, "no HPA scales web")
    assessment = assess(observed(hpa_target=none), usage(), SETTINGS, RequestSource.AUTO, NOON)
    found = view_of(assessment)
    assert [each.passed for each in found.guards if each.guard == "hpa_scaling"] == [None]
    assert "?  hpa scaling   not known: no HPA" in lines([found])


def test_a_guard_s_sentence_is_not_joined_to_another() -> None:
    told = lines([view(a=1.5, b=1.2, c=0.2)])
    where = told.index("deletion would leave 0 pods, minimum required is 2")
    assert told[where + 1].startswith("With a rotation: the hot pods' average 1.35 -> 0.97 cores")


@pytest.mark.parametrize(
    ("hpa_target", "line"),
    [
        (
            HpaTarget(HpaTargetKind.UTILIZATION, 70, "web"),
            "HPA web wants 70 % of the request for each pod",
        ),
        (
            HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.7, "web"),
            "HPA web wants 0.70 cores for each pod",
        ),
    ],
)
def test_the_target_is_told_where_no_pod_is_old_enough(hpa_target: HpaTarget, line: str) -> None:
    world = observed(*(live(name, started=NOON - 60) for name in F6), hpa_target=hpa_target)
    told = lines([view_of(assess(world, usage(), SETTINGS, RequestSource.AUTO, NOON))])
    assert told[:2] == ["Deployment shop/web: skip, pods_too_young", line]
    assert "all 6 pods are younger than 5m (minimumPodAge)" in told


def test_a_group_that_stays_hot() -> None:
    told = " ".join(lines([view(a=2.8, b=2.78, c=0.2, d=0.1, e=0.3, f=0.3)]))
    assert "1.47 cores on average are still above the threshold 1.05" in told


def test_wide_has_nodes_ages_and_requests() -> None:
    told = lines([view()], 110, wide=True)
    head = next(line for line in told if line.startswith("pod "))
    assert head.split() == [
        "pod", "group", "usage", "of", "request", "of", "target", "request", "limit", "age", "node",
    ]  # fmt: skip
    row = next(line for line in told if line.startswith("A "))
    assert row.split()[:-1] == [
        "A", "top", "1.20", "120.0", "%", "171.4", "%", "1.00", "-", "1h", "node-A",
    ]  # fmt: skip


def test_a_guard_that_forbids_is_marked() -> None:
    world = observed(scaling=Scaling(8, 6))
    assessment = assess(world, usage(), SETTINGS, RequestSource.AUTO, NOON)
    told = lines([view_of(assessment)])
    assert told[0] == "Deployment shop/web: skip, hpa_scaling"
    assert "✗  hpa scaling   the HPA scales from 6 to 8 pods" in told
    assert told[-1] == "run would change nothing"


def test_what_is_not_known_is_a_dash_and_a_reason() -> None:
    told = lines([view(a=1.3, b=0.2, c=Gap("its series is NaN"), d=0.3, e=0.1)])
    assert any(line.split()[:3] == ["c", "unknown", "-"] for line in told)
    assert any(line.startswith("  c: ") and "NaN" in line for line in told)


def test_nothing_but_a_reason() -> None:
    assessment = Assessment(NAME, Reason.PROMETHEUS_ERROR, "http://x does not answer")
    assert lines([view_of(assessment)]) == [
        "Deployment shop/web: skip, prometheus_error",
        "",
        "http://x does not answer",
        "",
        "run would change nothing",
    ]


def test_a_target_in_cores() -> None:
    world = observed(hpa_target=HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.7, "keda-hpa-web"))
    assessment = assess(world, usage(), SETTINGS, RequestSource.AUTO, NOON)
    told = lines([view_of(assessment)], 110)
    assert told[1] == "HPA keda-hpa-web wants 0.70 cores for each pod; hot is above 1.05"


def test_few_workloads_are_all_told_in_full_and_many_in_short() -> None:
    calm = view(**dict.fromkeys(F6, 0.5))
    told = lines([calm, view()])
    assert told.count("run would change nothing") == 1
    many = [msgspec.structs.replace(calm, workload=f"w{number}") for number in range(6)]
    told = lines([*many, view()], 110)
    assert told[:2] == [
        "Deployment shop/w0: skip, no_pods_above_tolerance",
        "  No pods exceed tolerance threshold (1.5x of HPA target)",
    ]
    assert "run would change nothing" not in told
    assert told[-2:] == ["  1. A, F", "  2. B, E"]
    assert lines([*many, view()], 110, wide=True).count("run would change nothing") == 6


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "-"), (0, "0.00"), (1.2, "1.20"), (0.1, "0.10"), (0.0123, "0.012"), (128, "128.00")],
)
def test_cores(amount: float | None, text: str) -> None:
    assert cores(amount) == text


usages = st.floats(0, 1000, allow_nan=False) | st.just(Gap("no series"))


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,60}", fullmatch=True), usages, min_size=1, max_size=9),
    st.integers(40, 200),
)
def test_any_fleet_can_be_told(pods: dict[str, float | Gap], width: int) -> None:
    told = lines([view(**pods)], width)
    assert told[0].startswith("Deployment shop/web: ")
    assert sum(line.startswith("  ┊ target") for line in told) <= 1
    assert all(len(line) <= width for line in told)
