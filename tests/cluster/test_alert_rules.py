"""The chart's alerts and recording rules, as promtool takes them: each alert fires where it should,
and does not where it should not."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tools.manifests import CHART

ALERTS = CHART / "rules" / "alerts.yaml"
RECORDING = CHART / "rules" / "recording.yaml"
#: All series are sampled once a minute for three hours; an alert is looked at after two and a half.
_SAMPLES, _LOOK = 180, "150m"


class AlertCase(msgspec.Struct, frozen=True):
    """`bad` and `good`: series with what they are worth, in promtool's notation; `labels` of the
    alert beside its own."""

    alert: str
    bad: dict[str, str]
    good: dict[str, str]
    labels: dict[str, str] = msgspec.field(default_factory=lambda: {"node": "a"})


def flat(value: float) -> str:
    return f"{value}x{_SAMPLES}"


def rising(step: float) -> str:
    return f"0+{step}x{_SAMPLES}"


def gauge(alert: str, series: str, bad: float, good: float, **labels: str) -> AlertCase:
    return AlertCase(alert, {series: flat(bad)}, {series: flat(good)}, labels or {"node": "a"})


_UP = 'up{job="slackwater-agent",node="a"}'
_GAPS = 'slackwater_rule_gaps_total{node="a",object="w",rule="slow"}'
_SOURCE = 'slackwater_source_silent{node="a",source="pods"}'
_CHANGES = 'slackwater_knob_changes_total{{node="a",knob="quota",level="tier",result="{}"}}'
_EVICTIONS = 'slackwater_commands_total{{node="a",kind="evict",result="{}"}}'
_EXCEEDED = 'slackwater_oversold_exceeded_total{node="a",resource="gocrane.io/cpu"}'
_TICKS = 'slackwater_ticks_total{node="a",kind="regular"}'
_THROTTLED = 'slackwater_tier_cpu_throttled_ratio{node="a",tier="besteffort"}'
_USED = 'slackwater_node_cpu_usage_cores{node="a"}'
_THERE = 'slackwater_node_cpu_allocatable_cores{node="a"}'
_ERRORS = 'rebalancer_executions_total{status="error"}'
_GOOD = 'rebalancer_executions_total{status="success"}'
_EXPIRY = "slackwater_webhook_certificate_expiry_timestamp_seconds"
_DAY = 86_400.0
#: promtool's clock starts at 0.
_NOW = 150 * 60

CASES = (
    AlertCase("SlackwaterAgentDown", {_UP: flat(0)}, {_UP: flat(1)},
              {"node": "a", "job": "slackwater-agent"}),
    gauge("SlackwaterAgentBlind", 'slackwater_blind{node="a"}', 1, 0),
    gauge("SlackwaterAgentStuck", 'slackwater_last_tick_age_seconds{node="a"}', 200, 90),
    gauge("SlackwaterConfigurationProblem", 'slackwater_configuration_problems{node="a"}', 2, 0),
    gauge("SlackwaterLedgerProblem", 'slackwater_ledger_problems{node="a"}', 1, 0),
    gauge("SlackwaterValuesContested", 'slackwater_knobs_yielded{node="a"}', 3, 0),
    AlertCase("SlackwaterChangesRefused", {_CHANGES.format("refused"): rising(1)},
              {_CHANGES.format("applied"): rising(1), _CHANGES.format("refused"): flat(7)},
              {"node": "a", "knob": "quota"}),
    gauge("SlackwaterObjectsUnseen", _SOURCE, 1, 0, node="a", source="pods"),
    AlertCase("SlackwaterBestEffortStarved",
              {_THROTTLED: flat(0.95), _USED: flat(3), _THERE: flat(8)},
              # As throttled, on a node that is full.
              {_THROTTLED: flat(0.95), _USED: flat(7), _THERE: flat(8)},
              {"node": "a", "tier": "besteffort"}),
    AlertCase("SlackwaterRuleWithoutMetric", {_GAPS: rising(60)}, {_GAPS: flat(500)},
              {"node": "a", "object": "w", "rule": "slow"}),
    gauge("SlackwaterNodeClosed", 'slackwater_node_tainted{node="a"}', 1, 0),
    AlertCase("SlackwaterEvictionsRefused", {_EVICTIONS.format("refused"): rising(1)},
              {_EVICTIONS.format("done"): rising(1)}),
    AlertCase("SlackwaterForecastExceeded", {_EXCEEDED: rising(6), _TICKS: rising(60)},
              {_EXCEEDED: rising(2), _TICKS: rising(60)},
              {"node": "a", "resource": "gocrane.io/cpu"}),
    gauge("SlackwaterRatioUnreadable", 'slackwater_cpu_normalization_problem{node="a"}', 1, 0),
    AlertCase("SlackwaterManagerWithoutLeader",
              {'slackwater_manager_leader{pod="m-0"}': flat(0),
               'slackwater_manager_leader{pod="m-1"}': flat(0)},
              {'slackwater_manager_leader{pod="m-0"}': flat(0),
               'slackwater_manager_leader{pod="m-1"}': flat(1)}, {}),
    gauge("SlackwaterManagerStuck", 'slackwater_manager_last_round_age_seconds{pod="m-0"}',
          300, 10, pod="m-0"),
    gauge("SlackwaterPolicyInvalid", 'slackwater_manager_invalid_objects{kind="NodeQOS"}',
          1, 0, kind="NodeQOS"),
    AlertCase("SlackwaterManagerConfigurationInvalid",
              {"slackwater_manager_template_invalid": flat(0),
               "slackwater_manager_slo_config_invalid": flat(1)},
              {"slackwater_manager_template_invalid": flat(0),
               "slackwater_manager_slo_config_invalid": flat(0)}, {}),
    AlertCase("SlackwaterPredictionsNotReady",
              {"slackwater_manager_predictions_not_ready": flat(4)},
              {"slackwater_manager_predictions_not_ready": flat(0)}, {}),
    AlertCase("SlackwaterWebhookCertificateExpires", {_EXPIRY: flat(_NOW + 5 * _DAY)},
              {_EXPIRY: flat(_NOW + 30 * _DAY)}, {}),
    AlertCase("SlackwaterRotationsFail", {_ERRORS: rising(1), _GOOD: flat(3)},
              # One workload of several fails.
              {_ERRORS: rising(1), _GOOD: rising(1)}, {}),
    AlertCase("SlackwaterRebalancerSilent",
              {"rebalancer_last_run_timestamp_seconds": flat(60)},
              {"rebalancer_last_run_timestamp_seconds": "0+60x180"}, {}),
)  # fmt: skip


def groups(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text())["groups"]
    return found


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in groups(ALERTS) for rule in group["rules"]}


def test_every_alert_has_a_case() -> None:
    assert [each.alert for each in CASES] == list(alerts())


@pytest.mark.parametrize(("path", "count"), [(ALERTS, len(CASES)), (RECORDING, 6)],
                         ids=lambda each: getattr(each, "name", ""))  # fmt: skip
def test_promtool_takes_them(path: Path, count: int) -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {count} rules found" in done.stdout


def look(case: AlertCase, series: dict[str, str], fires: bool) -> dict[str, Any]:
    """A test of promtool's. An alert's texts are compared too; theirs are written as they come."""
    expected = [{"exp_labels": {**case.labels, **alerts()[case.alert]["labels"]}}] if fires else []
    return {
        "name": f"{case.alert} {'fires' if fires else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": _LOOK, "alertname": case.alert, "exp_alerts": expected}],
    }


def run(tests: list[dict[str, Any]], folder: Path) -> subprocess.CompletedProcess[str]:
    """Without the annotations, whose words are no part of when it fires."""
    bare = [
        {**group, "rules": [{k: v for k, v in rule.items() if k != "annotations"}
                            for rule in group["rules"]]}
        for path in (ALERTS, RECORDING)
        for group in groups(path)
    ]  # fmt: skip
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": bare}))
    file = folder / "tests.yml"
    whole = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(whole))
    return subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )


def test_each_alert_fires_and_does_not_fire(tmp_path: Path) -> None:
    tests = [look(case, case.bad, fires=True) for case in CASES]
    tests += [look(case, case.good, fires=False) for case in CASES]
    done = run(tests, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_waits(tmp_path: Path) -> None:
    """A minute of trouble, right before the look, wakes nobody."""
    only = f"0x{_SAMPLES - 31} 1x40"
    case = AlertCase("SlackwaterAgentBlind", {}, {'slackwater_blind{node="a"}': only})
    done = run([look(case, case.good, fires=False)], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    """So that the other tests prove something."""
    case = CASES[1]
    done = run([look(case, case.good, fires=True)], tmp_path)
    assert done.returncode != 0
    assert case.alert in done.stdout + done.stderr


def test_words_are_filled_in(tmp_path: Path) -> None:
    rule = alerts()["SlackwaterManagerStuck"]
    file = tmp_path / "rules.yml"
    file.write_text(ALERTS.read_text())
    wanted = {
        "exp_labels": {"pod": "m-0", "severity": "critical"},
        "exp_annotations": {
            "summary": "The manager m-0 has not ended a round for 5m 0s.",
            "description": rule["annotations"]["description"],
        },
    }
    case = {
        "interval": "1m",
        "input_series": [{
            "series": 'slackwater_manager_last_round_age_seconds{pod="m-0"}',
            "values": flat(300),
        }],
        "alert_rule_test": [
            {"eval_time": _LOOK, "alertname": rule["alert"], "exp_alerts": [wanted]}
        ],
    }  # fmt: skip
    tests = tmp_path / "tests.yml"
    tests.write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [case]}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(tests)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
