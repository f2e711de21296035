"""The agent's and the best-effort share's sections, and the file that holds both."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros
from slackwater.settings import agent, best_effort_share
from slackwater.settings.agent import AgentSettings
from slackwater.settings.best_effort_share import Accounting, BestEffortShareSettings
from slackwater.settings.bound import Bound
from slackwater.settings.document import Settings, read_settings, render_settings
from slackwater.settings.section import Section, checked_text, key_of

FILE = {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


def values_of(section: Section, struct: type[Any]) -> st.SearchStrategy[Any]:
    """Settings with every bound's numbers, open ends cut at a million."""
    numbers = {
        attribute: st.integers(bound.low or 0, 10**6 if bound.high is None else bound.high)
        for attribute, bound in section.items()
        if isinstance(bound, Bound)
    }
    return st.builds(struct, **numbers)


def share(**said: Any) -> BestEffortShareSettings:
    return BestEffortShareSettings(**said)


def test_the_defaults_are_volcanos() -> None:
    """facts/volcano.md section 1.1, column "default when absent"."""
    settings = BestEffortShareSettings()
    assert settings == share(
        enabled=False, threshold=80, jitter=1, recover=10, accounting=Accounting.USAGE
    )


def test_the_agents_defaults() -> None:
    assert AgentSettings().period == 1_000_000
    assert AgentSettings().hold_for == 30_000_000


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, BestEffortShareSettings()),
        ({"enabled": True}, BestEffortShareSettings(enabled=True)),
        ({"threshold": 1}, share(threshold=1)),
        ({"threshold": 100}, share(threshold=100)),
        ({"jitter": 0}, share(jitter=0)),
        ({"jitter": 150}, share(jitter=150)),
        ({"recover": 1}, share(recover=1)),
        ({"recover": 150}, share(recover=150)),
        ({"accounting": "request"}, BestEffortShareSettings(accounting=Accounting.REQUEST)),
        ({"threshold": None, "enabled": None}, BestEffortShareSettings()),
        # Volcano ignores jitter and recover where the threshold is absent; that is a bug.
        ({"jitter": 5, "recover": 20}, share(jitter=5, recover=20)),
    ],
)
def test_best_effort_share(said: object, expected: BestEffortShareSettings) -> None:
    assert best_effort_share.read(said, "x") == expected


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"threshold": 0}, "x.threshold is 0, but must be a whole number, 1 % to 100 %"),
        ({"threshold": 101}, "x.threshold is 101, but must be a whole number, 1 % to 100 %"),
        ({"jitter": -1}, "x.jitter is -1, but must be a whole number, at least 0 %"),
        ({"recover": 0}, "x.recover is 0, but must be a whole number, at least 1 %"),
        ({"enabled": 1}, "x.enabled is 1, but must be true or false"),
        ({"accounting": "x"}, "x.accounting is 'x', but must be usage or request"),
        (
            {"thresold": 80},
            f"a key of x is 'thresold', but must be one of {', '.join(best_effort_share.SECTION)}",
        ),
        ([], "x is a list, but must be a mapping"),
        (None, "x is missing, but must be a mapping"),
    ],
)
def test_best_effort_share_refuses(said: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        best_effort_share.read(said, "x")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("said", "attribute", "value"),
    [
        ({"period": "100ms"}, "period", 100_000),
        ({"period": "1m"}, "period", 60_000_000),
        ({"holdFor": "1s"}, "hold_for", 1_000_000),
        ({"holdFor": "10m"}, "hold_for", 600_000_000),
        ({"raiseDeadband": 0}, "raise_deadband", 0),
        ({"yieldAfter": 2}, "yield_after", 2),
        ({"keptTicks": 3600}, "kept_ticks", 3600),
    ],
)
def test_agent(said: object, attribute: str, value: int) -> None:
    assert getattr(agent.read(said, "x"), attribute) == value


@pytest.mark.parametrize(
    "said",
    [
        {"period": "99ms"},
        {"period": "61s"},
        {"period": 1},
        {"holdFor": "999ms"},
        {"holdFor": "601s"},
        {"raiseDeadband": 3},
        {"fightWithin": "31s"},
        {"yieldAfter": 1},
        {"hold_for": "1s"},
    ],
)
def test_agent_refuses(said: dict[str, object]) -> None:
    with pytest.raises(InvalidError, match=next(iter(said))):
        agent.read(said, "x")


def test_what_is_not_said_keeps_the_base() -> None:
    base = share(enabled=True, threshold=60, jitter=3)
    assert best_effort_share.read({"jitter": 4}, "x", base) == msgspec.structs.replace(
        base, jitter=4
    )
    slow = AgentSettings(period=Micros(2_000_000))
    assert agent.read({}, "x", slow) == slow


@given(values_of(agent.SECTION, AgentSettings))
def test_agent_settings_read_back(settings: AgentSettings) -> None:
    assert agent.read(agent.render(settings), "x") == settings


@given(
    values_of(best_effort_share.SECTION, BestEffortShareSettings),
    st.booleans(),
    st.sampled_from(Accounting),
)
def test_best_effort_share_reads_back(
    drawn: BestEffortShareSettings, enabled: bool, accounting: Accounting
) -> None:
    settings = msgspec.structs.replace(drawn, enabled=enabled, accounting=accounting)
    assert best_effort_share.read(best_effort_share.render(settings), "x") == settings


@given(values_of(agent.SECTION, AgentSettings))
def test_reading_is_idempotent(settings: AgentSettings) -> None:
    said = agent.render(settings)
    once = agent.read(said, "x")
    assert agent.read(said, "x", once) == once


@pytest.mark.parametrize(
    ("attribute", "text", "value"),
    [("period", "2s", 2_000_000), ("yield_after", "7", 7), ("raise_deadband", "0", 0)],
)
def test_flags_of_the_agent(attribute: str, text: str, value: int) -> None:
    assert checked_text(agent.SECTION[attribute], text, "x") == value


@pytest.mark.parametrize(
    ("attribute", "text", "value"),
    [("enabled", "true", True), ("accounting", "request", "request"), ("jitter", "0", 0)],
)
def test_flags_of_the_share(attribute: str, text: str, value: object) -> None:
    assert checked_text(best_effort_share.SECTION[attribute], text, "x") == value


def test_a_key_is_the_last_word_of_the_name() -> None:
    assert key_of(agent.HOLD_FOR) == "holdFor"


def test_a_whole_file() -> None:
    spec = {"agent": {"period": "2s"}, "bestEffortShare": {"enabled": True}}
    settings = read_settings({**FILE, "metadata": {"name": "x"}, "spec": spec}, "s.yaml")
    assert settings.agent.period == 2_000_000
    assert settings.best_effort_share.enabled
    assert read_settings({**FILE}, "s.yaml") == Settings()
    assert read_settings({**FILE, "spec": None}, "s.yaml", settings) == settings
    assert settings.stated == {"agent.period", "bestEffortShare.enabled"}
    back = read_settings(render_settings(settings), "s.yaml")
    assert msgspec.structs.replace(back, stated=settings.stated) == settings


@pytest.mark.parametrize(
    ("document", "start"),
    [
        (None, "s.yaml is missing, but must be a mapping"),
        ("text", "s.yaml is 'text', but must be a mapping"),
        ({}, "s.yaml: apiVersion is missing, but must be slackwater.io/v1"),
        ({**FILE, "kind": "Pod"}, "s.yaml: kind is 'Pod', but must be AgentSettings"),
        ({**FILE, "spec": []}, "s.yaml: spec is a list, but must be a mapping"),
        ({**FILE, "data": {}}, "a key of s.yaml is 'data', but must be one of apiVersion, kind"),
        ({**FILE, "spec": {"x": 1}}, "a key of s.yaml: spec is 'x', but must be one of agent, "),
        ({1: 2}, "a key of s.yaml is 1, but must be one of apiVersion"),
        (
            {**FILE, "spec": {"agent": {"period": "5ms"}}},
            "s.yaml: spec.agent.period is '5ms', but must be a duration such as ",
        ),
    ],
)
def test_bad_files(document: object, start: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_settings(document, "s.yaml")
    assert str(caught.value).startswith(start)


@given(ANYTHING)
def test_any_document_reads_or_is_refused(document: object) -> None:
    for wrapped in (document, {**FILE, "spec": document}, {**FILE, "spec": {"agent": document}}):
        try:
            read_settings(wrapped, "s.yaml")
        except InvalidError as error:
            assert "\n" not in str(error)


@given(st.dictionaries(st.sampled_from(["period", "holdFor", "yieldAfter"]), ANYTHING))
def test_any_values_of_known_keys_read_or_are_refused(section: object) -> None:
    try:
        settings = agent.read(section, "x")
    except InvalidError as error:
        assert "\n" not in str(error)
    else:
        assert agent.PERIOD.holds(settings.period)
