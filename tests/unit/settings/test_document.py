"""What holds for every section, and what flags and variables say over them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.problem import InvalidError
from slackwater.settings.bound import Bound
from slackwater.settings.choice import Choice, Flag
from slackwater.settings.document import (
    PARTS,
    Settings,
    read_settings,
    render_settings,
    section_key,
    with_texts,
)
from slackwater.settings.section import Setting, key_of
from slackwater.settings.spelling import flag_of, variable_of
from slackwater.settings.table import SETTINGS

FILE = {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings"}
EVERY_PART = pytest.mark.parametrize("attribute", list(PARTS))


def value_of(setting: Setting) -> st.SearchStrategy[Any]:
    """Values as a file holds them, open ends cut at a million."""
    match setting:
        case Bound():
            high = 10**6 if setting.high is None else setting.high
            return st.integers(setting.low or 0, high).map(setting.written)
        case Choice():
            return st.sampled_from(setting.words)
        case Flag():
            return st.booleans()
        case _:
            # The setting's own domain, so that no two settings get the same name.
            return st.sampled_from(["a", "b"]).map(lambda word: f"{word}.io/{key_of(setting)}")


SPECS = st.fixed_dictionaries(
    {
        section_key(part): st.fixed_dictionaries(
            {}, optional={key_of(each): value_of(each) for each in part.SECTION.values()}
        )
        for part in PARTS.values()
    }
)


def test_every_part_is_an_attribute_of_the_settings() -> None:
    names = [info.name for info in msgspec.structs.fields(Settings)]
    assert names == [*PARTS, "stated"]
    keys = [section_key(part) for part in PARTS.values()]
    assert keys == [
        "agent",
        "bestEffortShare",
        "batchResources",
        "qosLevel",
        "memoryQos",
        "quotaBurst",
    ]


@EVERY_PART
def test_every_setting_is_called_by_its_section(attribute: str) -> None:
    """The key is the attribute's in camel case, and no prose is unfinished."""
    part = PARTS[attribute]
    for name, setting in part.SECTION.items():
        first, *rest = name.split("_")
        assert setting.name == f"{section_key(part)}.{first}{''.join(map(str.title, rest))}"
        assert setting.prose.endswith(".")


@EVERY_PART
def test_every_default_is_inside_its_bound(attribute: str) -> None:
    part = PARTS[attribute]
    default = getattr(Settings(), attribute)
    assert part.read({}, "x", default) == default
    assert part.read(part.render(default), "x", default) == default
    for setting in part.SECTION.values():
        if isinstance(setting, Bound):
            assert setting.holds(setting.default), setting.name


@EVERY_PART
def test_every_attribute_has_a_setting_and_its_default(attribute: str) -> None:
    section = PARTS[attribute].SECTION
    infos = msgspec.structs.fields(getattr(Settings(), attribute))
    assert [info.name for info in infos] == list(section)
    for info in infos:
        assert section[info.name].default == getattr(info.default, "value", info.default)


def test_every_policy_is_off_until_somebody_switches_it_on() -> None:
    for attribute in PARTS.keys() - {"agent"}:
        assert getattr(Settings(), attribute).enabled is False


@EVERY_PART
def test_unknown_keys_and_other_shapes_are_refused(attribute: str) -> None:
    part = PARTS[attribute]
    where = f"s.yaml: spec.{section_key(part)}"
    for value, sentence in (
        ({"nonsense": 1}, f"a key of {where} is 'nonsense', but must be one of "),
        ([], f"{where} is a list, but must be a mapping"),
        ("on", f"{where} is 'on', but must be a mapping"),
    ):
        with pytest.raises(InvalidError) as caught:
            read_settings({**FILE, "spec": {section_key(part): value}}, "s.yaml")
        assert str(caught.value).startswith(sentence)


@given(SPECS)
def test_every_file_inside_the_bounds_reads_and_reads_back(spec: dict[str, Any]) -> None:
    settings = read_settings({**FILE, "spec": spec}, "s.yaml")
    again = render_settings(settings)
    back = read_settings(again, "s.yaml")
    assert msgspec.structs.replace(back, stated=settings.stated) == settings
    assert settings.stated == {f"{key}.{word}" for key in spec for word in spec[key]}
    assert read_settings({**FILE, "spec": spec}, "s.yaml", settings) == settings
    for key, section in spec.items():
        for word, value in section.items():
            assert again["spec"][key][word] == value  # type: ignore[index]


@given(SPECS, SPECS)
def test_flags_say_what_a_file_says_and_win(base: dict[str, Any], spec: dict[str, Any]) -> None:
    below = read_settings({**FILE, "spec": base}, "s.yaml")
    said = {
        f"{key}.{word}": str(value).lower() if isinstance(value, bool) else str(value)
        for key, section in spec.items()
        for word, value in section.items()
    }
    assert with_texts(below, said) == read_settings({**FILE, "spec": spec}, "s.yaml", below)


def test_no_texts_change_nothing() -> None:
    assert with_texts(Settings(), {}) == Settings()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)
def test_a_bad_text_of_any_setting_is_told_by_its_name(setting: Setting) -> None:
    with pytest.raises(InvalidError) as caught:
        with_texts(Settings(), {setting.name: "no such value"})
    said = f"{flag_of(setting)} or {variable_of(setting)}"
    sentence = f"{setting.name} ({said}) is 'no such value', but must be "
    assert str(caught.value).startswith(sentence)
    assert setting.span() in str(caught.value)
