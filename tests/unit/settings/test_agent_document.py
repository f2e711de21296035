"""The settings file: what holds for every section, and what flags and variables say over it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from slackwater.contract.decoding import read_over
from slackwater.contract.document import Field
from slackwater.contract.schema import describe_type
from slackwater.model.problem import InvalidError
from slackwater.policies.catalog import POLICIES, SETTINGS
from slackwater.settings.agent_document import Settings, section_key
from slackwater.settings.setting import Setting
from tests.unit.settings.setting_values import file_value, value_of

FILE = {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings"}
ROWS = SETTINGS.rows
SECTIONS = SETTINGS.sections
BY_KEY = {each.key: each for each in ROWS}
EVERY_SECTION = pytest.mark.parametrize("attribute", list(SECTIONS))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
PAGE = Path(__file__).parents[3] / "docs/reference/settings.md"
AGAIN = (
    "docs/reference/settings.md is old; write it again: .venv/bin/python -c "
    "'from slackwater.policies.catalog import SETTINGS; print(SETTINGS.render_page(), end=\"\")' "
    "> docs/reference/settings.md"
)


def of_section(attribute: str) -> list[Setting]:
    return [each for each in ROWS if each.key.startswith(f"{section_key(attribute)}.")]


def key_in(setting: Setting) -> str:
    """In its section."""
    return setting.key.rpartition(".")[2]


SPECS = st.fixed_dictionaries(
    {
        section_key(attribute): st.fixed_dictionaries(
            {}, optional={key_in(each): value_of(each) for each in of_section(attribute)}
        )
        for attribute in SECTIONS
    }
)


def section_of(settings: Settings, name: str) -> Any:
    return settings.agent if name == "agent" else settings.policies[name]


def test_there_is_a_section_for_the_agent_and_for_each_policy() -> None:
    assert [*SECTIONS] == ["agent", *(policy.name for policy in POLICIES)]
    assert [*SETTINGS.defaults.policies] == [policy.name for policy in POLICIES]
    keys = [section_key(attribute) for attribute in SECTIONS]
    known = ["agent", "bestEffortShare", "elasticResources", "qosLevel", "memoryQos", "quotaBurst"]
    assert keys[: len(known)] == known  # files in use have them; a new policy's follows
    assert all(key.isalpha() and key[0].islower() for key in keys)


def test_files_may_use_a_sections_former_key() -> None:
    spec = {"batchResources": {"enabled": True, "weightFormula": "volcano"}}
    found = SETTINGS.read_file({**FILE, "spec": spec}, "s.yaml")
    renamed = {"elasticResources": spec["batchResources"]}
    assert found == SETTINGS.read_file({**FILE, "spec": renamed}, "s.yaml")
    assert found == SETTINGS.read_spec(Field("s.yaml", "spec", spec))
    with pytest.raises(InvalidError, match=r"a key of s\.yaml: spec is 'batchResources'"):
        SETTINGS.read_file({**FILE, "spec": spec | renamed}, "s.yaml")


@EVERY_SECTION
def test_every_field_is_a_setting_with_finished_prose(attribute: str) -> None:
    names = [each.name for each in msgspec.structs.fields(SECTIONS[attribute])]
    assert [each.path for each in of_section(attribute)] == [(attribute, name) for name in names]
    assert [key_in(each).lower() for each in of_section(attribute)] == [
        name.replace("_", "") for name in names
    ]
    assert all(each.description.endswith(".") for each in of_section(attribute))


@EVERY_SECTION
def test_every_default_is_inside_its_bound(attribute: str) -> None:
    default = section_of(SETTINGS.defaults, attribute)
    assert read_over(Field("", "x", {}), default) == default
    stated = {key_in(each): file_value(each, each.default_value) for each in of_section(attribute)}
    assert read_over(Field("", "x", stated), default) == default


def test_every_policy_is_off_until_somebody_switches_it_on() -> None:
    """By settings, or by objects: watermark_relief does nothing without a NodeQOS, normalization
    nothing without the Node's ratio."""
    for attribute in SECTIONS.keys() - {"agent", "watermark_relief", "normalization"}:
        assert section_of(SETTINGS.defaults, attribute).enabled is False


@EVERY_SECTION
def test_unknown_keys_and_other_shapes_are_refused(attribute: str) -> None:
    where = f"s.yaml: spec.{section_key(attribute)}"
    for value, sentence in (
        ({"nonsense": 1}, f"a key of {where} is 'nonsense', but must be one of "),
        ([], f"{where} is a list, but must be a mapping"),
        ("on", f"{where} is 'on', but must be a mapping"),
    ):
        with pytest.raises(InvalidError) as caught:
            SETTINGS.read_file({**FILE, "spec": {section_key(attribute): value}}, "s.yaml")
        assert str(caught.value).startswith(sentence)


@given(SPECS)
def test_every_file_inside_the_bounds_reads_and_reads_back(spec: dict[str, Any]) -> None:
    settings = SETTINGS.read_file({**FILE, "spec": spec}, "s.yaml")
    assert settings.stated == {f"{key}.{word}" for key in spec for word in spec[key]}
    assert SETTINGS.read_file({**FILE, "spec": spec}, "s.yaml", settings) == settings
    assert SETTINGS.read_spec(Field("x.yaml", "a.b", spec)) == settings
    again: dict[str, dict[str, Any]] = {}
    for attribute in SECTIONS:
        values = msgspec.structs.asdict(section_of(settings, attribute))
        for each, value in zip(of_section(attribute), values.values(), strict=True):
            again.setdefault(section_key(attribute), {})[key_in(each)] = file_value(each, value)
    back = SETTINGS.read_file({**FILE, "spec": again}, "s.yaml")
    assert msgspec.structs.replace(back, stated=settings.stated) == settings
    for key, section in spec.items():
        assert again[key] | section == again[key]


def text_of(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


@given(SPECS, SPECS)
def test_flags_say_what_a_file_says_and_win(base: dict[str, Any], spec: dict[str, Any]) -> None:
    below = SETTINGS.read_file({**FILE, "spec": base}, "s.yaml")
    said = {
        f"{key}.{word}": text_of(value)
        for key, section in spec.items()
        for word, value in section.items()
    }
    assert SETTINGS.with_texts(below, said) == SETTINGS.read_file(
        {**FILE, "spec": spec}, "s.yaml", below
    )


def test_no_texts_change_nothing() -> None:
    assert SETTINGS.with_texts(None, {}) == SETTINGS.defaults
    assert SETTINGS.with_texts(Settings(), {}) == SETTINGS.defaults


@pytest.mark.parametrize("setting", ROWS, ids=lambda each: each.key)
def test_a_bad_text_of_any_setting_is_told_by_its_name(setting: Setting) -> None:
    with pytest.raises(InvalidError) as caught:
        SETTINGS.with_texts(None, {setting.key: "no such value"})
    said = f"{setting.flag} or {setting.variable}"
    bound = describe_type(setting.type)
    listed = ", with commas" if isinstance(setting.annotation.type, inspect.VarTupleType) else ""
    sentence = f"{setting.key} ({said}) is 'no such value', but must be {bound}{listed}"
    assert str(caught.value) == sentence


def test_every_bad_value_is_told_at_once() -> None:
    spec = {"agent": {"period": "5ms", "perod": 1}, "quotaBurst": {"most": 0}}
    with pytest.raises(InvalidError) as caught:
        SETTINGS.read_file({**FILE, "spec": spec}, "s.yaml")
    assert [each.where for each in caught.value.problems] == [
        "a key of s.yaml: spec.agent",
        "s.yaml: spec.agent.period",
        "s.yaml: spec.quotaBurst.most",
    ]


def test_a_whole_file() -> None:
    spec = {"agent": {"period": "2s"}, "bestEffortShare": {"enabled": True}}
    settings = SETTINGS.read_file({**FILE, "metadata": {"name": "x"}, "spec": spec}, "s.yaml")
    assert settings.agent.period == 2_000_000
    assert settings.policies["best_effort_share"].enabled
    assert SETTINGS.read_file({**FILE}, "s.yaml") == SETTINGS.defaults
    assert SETTINGS.read_file({**FILE, "spec": None}, "s.yaml", settings) == settings
    assert settings.stated == {"agent.period", "bestEffortShare.enabled"}


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
        SETTINGS.read_file(document, "s.yaml")
    assert str(caught.value).startswith(start)


@given(ANYTHING)
def test_any_document_reads_or_is_refused(document: object) -> None:
    for wrapped in (document, {**FILE, "spec": document}, {**FILE, "spec": {"agent": document}}):
        try:
            SETTINGS.read_file(wrapped, "s.yaml")
        except InvalidError as error:
            assert "\n" not in str(error)


@given(st.dictionaries(st.sampled_from(["period", "holdFor", "yieldAfter"]), ANYTHING))
def test_any_values_of_known_keys_read_or_are_refused(section: object) -> None:
    try:
        settings = read_over(Field("", "x", section), SETTINGS.defaults.agent)
    except InvalidError as error:
        assert "\n" not in str(error)
    else:
        assert 100_000 <= settings.period <= 60_000_000


# --- the page


def test_the_page_in_docs_is_the_page() -> None:
    assert PAGE.read_text() == SETTINGS.render_page(), AGAIN


def test_names_flags_and_variables_are_unique() -> None:
    for name in ("key", "flag", "variable", "option"):
        assert len({getattr(setting, name) for setting in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    ("key", "flag", "variable"),
    [
        ("agent.period", "--period", "SLACKWATER_PERIOD"),
        ("agent.holdFor", "--hold-for", "SLACKWATER_HOLD_FOR"),
        (
            "bestEffortShare.threshold",
            "--best-effort-share-threshold",
            "SLACKWATER_BEST_EFFORT_SHARE_THRESHOLD",
        ),
        (
            "elasticResources.cpuResource",
            "--elastic-resources-cpu-resource",
            "SLACKWATER_ELASTIC_RESOURCES_CPU_RESOURCE",
        ),
        ("qosLevel.standIn", "--qos-level-stand-in", "SLACKWATER_QOS_LEVEL_STAND_IN"),
    ],
)
def test_spellings(key: str, flag: str, variable: str) -> None:
    assert (BY_KEY[key].flag, BY_KEY[key].variable) == (flag, variable)


@pytest.mark.parametrize(
    ("key", "default", "bound", "unit"),
    [
        ("agent.period", "1s", "100ms to 1m", "duration"),
        ("agent.raiseDeadband", "1 ‰", "0 ‰ to 2 ‰", "‰"),
        ("bestEffortShare.recover", "10 %", "at least 1 %", "%"),
        ("bestEffortShare.recoverFrom", "25 %", "1 % to 100 %", "%"),
        ("bestEffortShare.enabled", "false", "true or false", "word"),
        ("bestEffortShare.accounting", "usage", "usage or request", "word"),
        ("qosLevel.standIn", "idle", "idle, weight or none", "word"),
        ("memoryQos.throttlingFactor", "90 %", "1 % to 100 %", "%"),
        (
            "elasticResources.memoryResource",
            "kubernetes.io/batch-memory",
            "a domain, a slash and a name, such as example.com/batch-cpu",
            "name",
        ),
    ],
)
def test_rows(key: str, default: str, bound: str, unit: str) -> None:
    made = BY_KEY[key]
    assert (made.default, made.bound, made.unit) == (default, bound, unit)


def test_every_setting_is_told_once_in_the_table_and_once_in_prose() -> None:
    for setting in ROWS:
        assert SETTINGS.render_page().count(f"| `{setting.key}` |") == 1
        assert SETTINGS.render_page().count(f"**`{setting.key}`** {setting.description}\n") == 1
        assert "|" not in setting.description
