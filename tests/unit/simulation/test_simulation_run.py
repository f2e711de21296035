"""A scenario run through: who got what, what the events do, what the report and picture say."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from slackwater.agent.dependencies import (
    NO_OVERRIDES,
    CommandLineOverrides,
)
from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.units import Micros
from slackwater.record.journal import TickRecord
from slackwater.simulation.scenario_file import scenario_in
from slackwater.simulation.scenario_picture import draw_scenario
from slackwater.simulation.scenario_report import ScenarioReport, format_clock, make_report
from slackwater.simulation.simulation_run import Simulation, SimulationError

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
ON = {"bestEffortShare": {"enabled": True}}
WEB = {"name": "web", "tier": "burstable", "request": 1, "demand": 1}
BATCH = {"name": "batch", "tier": "besteffort", "demand": 4}
SECOND = 1_000_000


class Run:
    """A life to its end, with all its ticks and its report."""

    def __init__(
        self, folder: Path, overrides: CommandLineOverrides = NO_OVERRIDES, **spec: Any
    ) -> None:
        base = {"cpus": 4, "duration": "60s", "settings": ON, "pods": [WEB, BATCH]}
        document = {
            "apiVersion": "slackwater.io/v1",
            "kind": "Scenario",
            "metadata": {"name": 'a "small" <one>'},
            "spec": base | spec,
        }
        self.simulation = Simulation(scenario_in(document, "s.yaml"), str(folder), overrides)
        self.ticks: list[TickRecord] = []
        self.gaps = 0
        self.simulation.run(self._watch)
        self.rows = self.simulation.timeline.rows()
        self.report: ScenarioReport = make_report(
            self.simulation, self.rows, self.simulation.release()
        )
        self.simulation.close()

    def _watch(self, _at: Micros, done: object) -> None:
        if isinstance(done, TickRecord):
            self.ticks.append(done)
        else:
            self.gaps += 1

    def told(self, what: str) -> list[tuple[float, str]]:
        return [(row.at, row.because) for row in self.rows if row.what.endswith(what)]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_who_wanted_got_and_lost_how_much(tmp_path: Path, version: str) -> None:
    run = Run(tmp_path, cgroup=version, system="200m")
    tiers = {tier.tier: tier for tier in run.report.tiers}
    assert (tiers["burstable"].wanted, tiers["burstable"].got) == (60.0, 60.0)
    assert tiers["guaranteed"].wanted == 0
    best = tiers["besteffort"]
    assert best.wanted == pytest.approx(240, abs=0.1)
    # A second without a quota: 2.8 CPUs; then 3.2 less 1.2.
    assert best.got == pytest.approx(2.8 + 59 * 2.0, abs=0.2)
    assert best.lost == pytest.approx(best.wanted - best.got, abs=0.01)
    assert run.report.online.mean_lost_milli == 0
    share = run.report.best_effort
    assert share.idle == pytest.approx(60 * 2.8, abs=0.1)
    assert share.budget == pytest.approx(59 * 2.0, abs=0.1)
    assert share.part == pytest.approx(1.0, abs=0.001)
    assert run.report.left == 0
    assert (run.report.agent.ticks, run.report.agent.writes) == (60, 1)
    assert run.report.agent.holds == 1


def test_without_the_policy_there_is_no_quota(tmp_path: Path) -> None:
    report = Run(tmp_path, settings={}).report
    assert (report.agent.writes, report.best_effort.budget) == (0, None)
    assert report.best_effort.part == pytest.approx(1.0, abs=0.01)
    [line] = report.timeline  # why there is none
    assert "no policy is on" in line.because


def test_online_work_that_lacks_cpu_is_counted(tmp_path: Path) -> None:
    hungry = {**WEB, "demand": {"steps": {"levels": [6, *[1] * 49]}}}
    report = Run(tmp_path, duration="50s", pods=[hungry]).report
    (burstable,) = [tier for tier in report.tiers if tier.tier == "burstable"]
    assert burstable.lost == pytest.approx(2.0, abs=0.01)
    assert report.online.mean_lost_milli == pytest.approx(40, abs=0.5)
    assert report.online.p99_lost_milli == 2000  # one second of fifty is worse than 1 %


def test_flags_win_over_the_scenario(tmp_path: Path) -> None:
    run = Run(tmp_path, CommandLineOverrides(settings={"bestEffortShare.threshold": "50"}))
    assert run.ticks[-1].story.told[0].numbers["allowed"] == 2000


def test_bad_flags_end_it(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match=r"threshold \(.*\) is 0, but must be"):
        Run(tmp_path, CommandLineOverrides(settings={"bestEffortShare.threshold": "0"}))


def test_pods_come_and_go(tmp_path: Path) -> None:
    run = Run(
        tmp_path,
        pods=[WEB, {**BATCH, "from": "20s", "until": "40s"}, {**WEB, "name": "api", "from": "30s"}],
    )
    assert run.told("pod batch") == [(20, "it came, besteffort"), (40, "it ended")]
    assert run.told("pod api") == [(30, "it came, burstable")]
    (best,) = [tier for tier in run.report.tiers if tier.tier == "besteffort"]
    assert best.wanted == pytest.approx(80, abs=0.1)
    numbers = {len(tick.snapshot.workloads) for tick in run.ticks}
    assert numbers == {1, 2, 3}


@pytest.mark.parametrize("down", ["0s", "10s"])
def test_a_kill_and_what_the_next_agent_adopts(tmp_path: Path, down: str) -> None:
    run = Run(tmp_path, events=[{"at": "30s", "kind": "kill", "down": down}])
    back = 30 + int(down[:-1])
    assert (30, f"killed; back in {down[:-1]} s") in run.told("agent")
    assert (back, "adopted: ours") in run.told("besteffort")
    assert len(run.ticks) == 60 - int(down[:-1])
    assert run.ticks[-1].snapshot.tick < 40  # it counts anew
    assert run.report.left == 0
    assert run.report.agent.holds == 2


def test_an_agent_that_is_dead_at_the_end_is_released_by_another(tmp_path: Path) -> None:
    run = Run(tmp_path, events=[{"at": "30s", "kind": "kill", "down": "5m"}])
    assert run.report.left == 0
    assert len(run.ticks) == 30
    tier = run.simulation.node.tiers[Tier.BESTEFFORT]
    assert run.simulation.kernel.text(tier, QUOTA) == "max 100000"


def test_blindness_outlasts_a_kill(tmp_path: Path) -> None:
    events = [
        {"at": "20s", "kind": "blind", "for": "20s"},
        {"at": "25s", "kind": "kill", "down": "5s"},
    ]
    run = Run(tmp_path, events=events)
    blind = [isinstance(tick.snapshot.usage, Gap) for tick in run.ticks]
    # 20 to 24 and 30 to 39, and 40, when it was read only once.
    assert blind == [True, *[False] * 19, *[True] * 16, *[False] * 19]


def test_a_rival_is_repaired_then_yielded_to(tmp_path: Path) -> None:
    rival = {"at": "20s", "kind": "rival-write", "target": "besteffort", "quota": "unlimited"}
    run = Run(tmp_path, events=[{**rival, "times": 8, "every": "3s"}])
    assert (run.report.agent.repairs, run.report.agent.yields) == (4, 1)
    assert any("somebody else wrote unlimited: applied" in why for _, why in run.told("effort"))
    once = Run(tmp_path, events=[{**rival, "quota": "500m"}])
    assert (once.report.agent.repairs, once.report.agent.yields) == (1, 0)


def test_a_rival_of_a_pod_that_is_not_there(tmp_path: Path) -> None:
    rival = {"at": "20s", "kind": "rival-write", "target": "batch", "quota": "1"}
    run = Run(tmp_path, pods=[{**BATCH, "from": "30s"}], events=[rival])
    assert (20, "somebody else would write it, but there is no pod batch now") in run.told("batch")


def test_new_settings_count_at_the_next_round(tmp_path: Path) -> None:
    new = {"at": "30s", "kind": "settings", "settings": {"bestEffortShare": {"threshold": 50}}}
    run = Run(tmp_path, events=[new])
    allowed = [tick.story.told[0].numbers.get("allowed") for tick in run.ticks]
    assert allowed[29:31] == [3200, 2000]
    off = {"at": "30s", "kind": "settings", "settings": {"bestEffortShare": {"enabled": False}}}
    freed = Run(tmp_path, events=[off])
    tier = freed.simulation.node.tiers[Tier.BESTEFFORT]
    assert freed.ticks[30].outcomes[0].change.ref == tier
    assert freed.ticks[31].outcomes == ()


def test_pressure_wakes_the_agent_before_its_time(tmp_path: Path) -> None:
    spike = {**WEB, "demand": {"spike": {"at": "30s", "height": 3, "for": "20s", "base": 1}}}
    events = [{"at": "30.4s", "kind": "pressure"}, {"at": "45s", "kind": "pressure"}]
    run = Run(tmp_path, pods=[spike, BATCH], events=events)
    early = [tick for tick in run.ticks if tick.snapshot.early]
    assert [tick.snapshot.at for tick in early] == [30_400_000]  # the other one was due anyway
    assert len(early[0].outcomes) == 1
    assert run.report.agent.early == 1
    assert len(run.ticks) == 61
    assert [t.snapshot.at % SECOND for t in run.ticks if not t.snapshot.early] == [0] * 60


def test_blindness_holds_then_releases(tmp_path: Path) -> None:
    run = Run(tmp_path, duration="90s", events=[{"at": "20s", "kind": "blind", "for": "45s"}])
    reasons = [why for _, why in run.told("best_effort_share")]
    assert "held: the scenario hides the node's usage" in reasons
    assert sum("held for 30 s, so released" in why for why in reasons) == 1
    assert run.report.agent.releases == 15
    assert reasons[-1] == "recovered"


def test_the_period_is_the_settings(tmp_path: Path) -> None:
    run = Run(tmp_path, period="5s")
    times = [tick.snapshot.at // SECOND for tick in run.ticks]
    assert times[-1] - times[-2] == 5
    assert run.report.scenario.period_seconds == 5


def test_the_same_seed_is_the_same_life(tmp_path: Path) -> None:
    noisy = {**WEB, "demand": {"noise": {"low": 0, "high": 3}}}
    first, second = (Run(tmp_path / name, pods=[noisy, BATCH], seed=5) for name in "ab")
    other = Run(tmp_path / "c", pods=[noisy, BATCH], seed=6)
    assert first.report == second.report
    assert first.ticks == second.ticks
    assert first.report.tiers != other.report.tiers


def test_a_ledger_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SimulationError, match="cannot be used"):
        Run(tmp_path / "file")


def elements(svg: str, name: str) -> list[ET.Element]:
    return ET.fromstring(svg).findall(f".//{{http://www.w3.org/2000/svg}}{name}")  # noqa: S314 - ours


def drawn(run: Run) -> str:
    return draw_scenario(run.report, run.simulation.meter, run.rows)


def test_the_picture_is_one_svg_with_all_its_parts(tmp_path: Path) -> None:
    run = Run(
        tmp_path,
        system="100m",
        pods=[WEB, {**WEB, "name": "db", "tier": "guaranteed"}, BATCH],
        events=[{"at": "30s", "kind": "kill"}, {"at": "31s", "kind": "pressure"}],
    )
    svg = drawn(run)
    classes = [each.get("class") for each in elements(svg, "path")]
    for part in ("system", "guaranteed", "burstable", "besteffort", "allowed", "quota"):
        assert part in classes
    words = [each.text for each in elements(svg, "text")]
    assert 'a "small" <one>' in words
    assert "0:00:30  agent: killed; back in 0 s" in words
    assert "0:00:31  agent: woken early by pressure" in words
    assert len([each for each in elements(svg, "line") if each.get("class") == "event"]) == 4
    assert "prefers-color-scheme: dark" in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")  # it needs nothing else
    assert len(svg) < 200_000
    badges = [float(each.get("cx", "0")) for each in elements(svg, "circle")]
    assert badges[1] - badges[0] >= 16  # side by side, not on each other


def test_lost_cpu_has_a_panel_only_if_there_is_some(tmp_path: Path) -> None:
    panel = "CPUs that guaranteed and burstable pods wanted and did not get"
    calm = Run(tmp_path / "calm")
    assert panel not in drawn(calm)
    hungry = Run(tmp_path / "hungry", pods=[{**WEB, "demand": 6}, BATCH])
    assert panel in drawn(hungry)


def test_without_a_quota_the_picture_says_so(tmp_path: Path) -> None:
    svg = drawn(Run(tmp_path, settings={}))
    assert "no quota" in svg
    assert 'class="quota" d=' not in svg
    assert 'class="allowed" d=' not in svg


def test_nothing_at_all_can_be_drawn(tmp_path: Path) -> None:
    svg = drawn(Run(tmp_path, pods=[], duration="1s"))
    assert elements(svg, "rect")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0:00:00"),
        (61, "0:01:01"),
        (26 * 3600, "26:00:00"),
        (1.6, "0:00:02"),
    ],
)
def test_times_as_people_write_them(seconds: float, shown: str) -> None:
    assert format_clock(seconds) == shown


def test_the_quota_is_back_after_the_report(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert (
        run.simulation.kernel.text(run.simulation.node.tiers[Tier.BESTEFFORT], QUOTA)
        == "max 100000"
    )
