"""One setting changed: which ones there are, which values are refused, and what differs."""

import functools

import pytest

from slackwater.record.recording import Recording, decode_recording, encode_recording
from slackwater.ui.sources import NotAvailableError
from slackwater.ui.whatif import Choice, list_choices, run_whatif
from tests.unit.ui.simulated_agent import simulated_agent

LIMIT = "rule:NodeQOS/busy/cpu"


@functools.cache
def recording() -> Recording:
    with simulated_agent() as agent:
        return decode_recording(encode_recording(agent.shared.journal.ticks))


@functools.cache
def choices() -> dict[str, Choice]:
    return {each.key: each for each in list_choices(recording())}


def test_rules_come_first_then_what_was_on() -> None:
    keys = list(choices())
    assert keys[0] == LIMIT
    assert keys.index("bestEffortShare.threshold") < keys.index("quotaBurst.most")
    assert not any(key.startswith("agent.") for key in keys)


@pytest.mark.parametrize(
    ("key", "group", "now", "bound"),
    [
        (LIMIT, "rules of the recording", "11500", "a quantity above 0"),
        ("bestEffortShare.threshold", "best_effort_share", "80 %", "1 % to 100 %"),
        ("bestEffortShare.enabled", "best_effort_share", "true", "true or false"),
        ("oversold.warmUp", "oversold", "20s", "0s to 24h"),
        ("quotaBurst.most", "quota_burst (was off)", "100 %", "1 % to 100 %"),
    ],
)
def test_what_a_choice_says(key: str, group: str, now: str, bound: str) -> None:
    found = choices()[key]
    assert (found.group, found.now, found.bound) == (group, now, bound)


def test_the_recorded_value_changes_nothing() -> None:
    assert run_whatif(recording(), "bestEffortShare.threshold", "80").different == 0
    assert run_whatif(recording(), LIMIT, "11500").different == 0
    assert run_whatif(recording(), "", "").different == 0


def test_another_threshold_is_another_quota() -> None:
    found = run_whatif(recording(), "bestEffortShare.threshold", "60")
    assert found.different
    assert len(found.marks) == found.ticks == 60
    assert sum(bool(mark.differences) for mark in found.marks) == found.different
    quota = found.things[0]
    assert (quota.what, quota.aspect) == ("quota of kubepods/besteffort", "grant")
    assert int(quota.now.removesuffix("m")) < int(quota.then.removesuffix("m"))


def test_a_rule_with_another_value_is_not_triggered() -> None:
    found = run_whatif(recording(), LIMIT, "1M")
    what = {(each.aspect, each.what): each for each in found.things}
    rule = what["rule", "NodeQOS/busy/cpu"]
    assert rule.now == "quiet"


def test_a_policy_that_is_switched_off_lets_go() -> None:
    found = run_whatif(recording(), "bestEffortShare.enabled", "false")
    assert found.different
    assert any(each.now == "off" for each in found.things)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("bestEffortShare.threshold", "200", "bestEffortShare.threshold is 200, but must"),
        ("bestEffortShare.threshold", "", "bestEffortShare.threshold"),
        ("bestEffortShare.accounting", "nothing", "but must be one of usage, request"),
        ("oversold.warmUp", "soon", "oversold.warmUp"),
        ("nonsense", "1", "there is no setting 'nonsense'"),
        (LIMIT, "much", "'much', but must be a quantity above 0"),
        (LIMIT, "0", "must be a quantity above 0"),
        ("rule:NodeQOS/busy/other", "1", "the recording has no rule 'NodeQOS/busy/other'"),
    ],
)
def test_bad_values_are_one_sentence(key: str, value: str, sentence: str) -> None:
    with pytest.raises(NotAvailableError) as found:
        run_whatif(recording(), key, value)
    assert sentence in str(found.value)
    assert "--" not in str(found.value)
    assert "SLACKWATER" not in str(found.value)
