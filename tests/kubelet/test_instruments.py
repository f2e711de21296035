"""What the observations rest on, judged by rows."""

import pytest

from tests.kubelet.node import full_periods, update_times
from tests.kubelet.test_rivals import untold
from tests.kubelet.watch import Sample, Span, longest_pause, unlimited_spans


def samples(*texts: str) -> list[Sample]:
    return [Sample(float(at), text) for at, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("5000 100000", "6000 100000"), []),
        (("5000 100000", "max 100000", "5000 100000"), [Span(1, 2)]),
        (("max 100000", "max 100000", "5000 100000"), [Span(0, 2)]),
        (("5 1", "max 1", "5 1", "max 1", "max 1"), [Span(1, 2), Span(3, 4)]),
    ],
)
def test_spans_without_a_limit(texts: tuple[str, ...], expected: list[Span]) -> None:
    assert unlimited_spans(samples(*texts)) == expected


def test_the_longest_pause_is_between_neighbours() -> None:
    assert longest_pause([Sample(0.0, ""), Sample(0.1, ""), Sample(2.1, "")]) == 2.0


@pytest.mark.parametrize(
    ("spans", "repaired", "expected"),
    [
        ([], [], []),
        ([], [7.0], []),
        ([Span(10, 11)], [], [Span(10, 11)]),
        ([Span(10, 11)], [10.9], []),
        ([Span(10, 11)], [9.5], []),  # a tick that began before, and looked after
        ([Span(10, 11)], [8.9], [Span(10, 11)]),
        ([Span(10, 11)], [11.1], [Span(10, 11)]),
        ([Span(10, 10.4), Span(10.6, 11)], [10.3], [Span(10.6, 11)]),  # one repair is for one
        ([Span(10, 10.4), Span(10.6, 11)], [10.3, 10.9], []),
    ],
)
def test_each_reset_needs_a_repair_of_its_own(
    spans: list[Span], repaired: list[float], expected: list[Span]
) -> None:
    assert untold(spans, repaired) == expected


LOG = """\
I1117 05:38:43.500000     161 qos_container_manager_linux.go:387] "Updated QoS cgroup configuration"
I1117 05:38:43.700000     161 server.go:1] "Started"
I1117 05:39:43.600000     161 qos_container_manager_linux.go:387] "Updated QoS cgroup configuration"
"""


def test_update_times_are_the_kubelets_own() -> None:
    assert update_times(LOG) == [20323.5, 20383.6]
    assert update_times("") == []


@pytest.mark.parametrize(
    ("times", "ticks"),
    [
        ([], 0),
        ([100.0], 0),
        ([100.0, 101.0, 102.0], 0),
        ([100.0, 101.0, 160.0], 1),
        ([100.0, 130.0, 160.1, 190.0, 220.2, 280.3], 3),
        ([100.0, 159.0], 0),
        ([86_390.0, 50.1, 110.2], 2),  # past midnight
    ],
)
def test_a_tick_is_a_whole_period_after_the_one_before(times: list[float], ticks: int) -> None:
    assert full_periods(times, 60.0) == ticks
