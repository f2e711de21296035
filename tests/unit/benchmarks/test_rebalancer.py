"""What the rebalancer's benchmark measures, and what it concludes."""

import sys

import pytest

from benchmarks import rebalancer
from benchmarks._rebalancer_decisions import Decided, cluster, decide, measure
from benchmarks.rebalancer import BAR_PEAK, BAR_SECONDS, CannotMeasureError, rows


def decided(seconds: float = 0.2, peak: float = 50.0) -> Decided:
    return Decided(seconds, seconds, peak, 10_000, 240, {"rotate": 60, "capped": 140})


def test_the_cluster_is_as_large_as_it_was_asked_for_and_always_the_same() -> None:
    seen, usages = cluster(20, 7)
    assert [len(each.pods) for each in seen] == [7] * 20
    assert sum(len(each.usage) for each in usages.values()) == 20 * 7 * 2
    assert (seen, usages) == cluster(20, 7)


def test_the_work_is_real() -> None:
    """Most workloads are skewed enough to be rotated, some are not, and caps cut some down."""
    found = decide(*cluster(100, 50))
    assert sum(each.rotates for each in found) > 40
    assert sum(not each.rotates for each in found) > 4
    assert any(
        guard.guard == "caps" and guard.because.startswith(("0 of", "2 of"))
        for each in found
        for guard in each.guards
    )


def test_what_is_measured() -> None:
    found = measure(10, 10)
    assert found.pods == 100
    assert 2 <= found.going <= 40
    assert 0 < found.seconds < BAR_SECONDS
    assert found.peak > 1
    assert sum(found.reasons.values()) == 10


@pytest.mark.parametrize(
    ("rounds", "missed"),
    [
        ([decided()], []),
        ([decided(BAR_SECONDS, BAR_PEAK)], []),
        ([decided(BAR_SECONDS + 0.1)], ["deciding about 10000 pods"]),
        # One slow round of three is the machine's; the largest memory is ours.
        ([decided(), decided(9.0), decided()], []),
        ([decided(), decided(peak=151.0), decided()], ["peak memory, with what was read"]),
    ],
)
def test_bars(rounds: list[Decided], missed: list[str]) -> None:
    assert [row.what for row in rows(rounds) if row.missed()] == missed


def test_a_fresh_process_decides() -> None:
    assert rebalancer.run(3, 4).pods == 12


def test_a_process_that_fails_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(CannotMeasureError, match="the deciding process ended with 1: no word"):
        rebalancer.run(3, 4)


@pytest.mark.parametrize(("seconds", "code"), [(0.2, 0), (2.5, 1)])
def test_the_exit_code_is_the_bars(
    seconds: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rebalancer, "run", lambda *_: decided(seconds))
    monkeypatch.setattr(sys, "argv", ["rebalancer.py", "--rounds", "2"])
    assert rebalancer.main() == code
    printed = capsys.readouterr().out
    assert ("MISSED" in printed) is (code == 1)
    assert "60 workloads: rotate" in printed


@pytest.mark.parametrize("flag", ["--workloads", "--pods", "--rounds"])
def test_bad_numbers(
    flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rebalancer.py", flag, "0"])
    with pytest.raises(SystemExit) as ended:
        rebalancer.main()
    assert ended.value.code == 2
    assert f"{flag} is 0, which has to be at least 1" in capsys.readouterr().err
