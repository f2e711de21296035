"""The documentation of the settings is made of the settings."""

from pathlib import Path

import pytest

from slackwater.settings import agent, batch_resources, best_effort_share, memory_qos, qos_level
from slackwater.settings.section import Setting
from slackwater.settings.spelling import flag_of, variable_of
from slackwater.settings.table import SETTINGS, page, row

PAGE = Path(__file__).parents[3] / "docs/reference/settings.md"
AGAIN = (
    "docs/reference/settings.md is old; write it again: .venv/bin/python -c "
    "'from slackwater.settings.table import page; print(page(), end=\"\")' "
    "> docs/reference/settings.md"
)


def test_the_page_in_docs_is_the_page() -> None:
    assert PAGE.read_text() == page(), AGAIN


def test_names_flags_and_variables_are_unique() -> None:
    for key in (lambda each: each.name, flag_of, variable_of):
        assert len({key(setting) for setting in SETTINGS}) == len(SETTINGS)


@pytest.mark.parametrize(
    ("setting", "flag", "variable"),
    [
        (agent.PERIOD, "--period", "SLACKWATER_PERIOD"),
        (agent.HOLD_FOR, "--hold-for", "SLACKWATER_HOLD_FOR"),
        (
            best_effort_share.THRESHOLD,
            "--best-effort-share-threshold",
            "SLACKWATER_BEST_EFFORT_SHARE_THRESHOLD",
        ),
        (
            batch_resources.CPU_RESOURCE,
            "--batch-resources-cpu-resource",
            "SLACKWATER_BATCH_RESOURCES_CPU_RESOURCE",
        ),
        (qos_level.STAND_IN, "--qos-level-stand-in", "SLACKWATER_QOS_LEVEL_STAND_IN"),
    ],
)
def test_spellings(setting: Setting, flag: str, variable: str) -> None:
    assert flag_of(setting) == flag
    assert variable_of(setting) == variable


@pytest.mark.parametrize(
    ("setting", "default", "bound", "unit"),
    [
        (agent.PERIOD, "1s", "100ms to 1m", "duration"),
        (agent.RAISE_DEADBAND, "1 ‰", "0 ‰ to 2 ‰", "‰"),
        (best_effort_share.RECOVER, "10 %", "at least 1 %", "%"),
        (best_effort_share.ENABLED, "false", "true or false", "word"),
        (best_effort_share.ACCOUNTING, "usage", "usage or request", "word"),
        (qos_level.STAND_IN, "idle", "idle, weight or none", "word"),
        (memory_qos.THROTTLING_FACTOR, "90 %", "1 % to 100 %", "%"),
        (
            batch_resources.MEMORY_RESOURCE,
            "kubernetes.io/batch-memory",
            "a domain, a slash and a name, such as example.com/batch-cpu",
            "name",
        ),
    ],
)
def test_rows(setting: Setting, default: str, bound: str, unit: str) -> None:
    made = row(setting)
    assert (made.name, made.default, made.bound, made.unit) == (setting.name, default, bound, unit)
    assert made.prose == setting.prose


def test_every_setting_is_told_once_in_the_table_and_once_in_prose() -> None:
    for setting in SETTINGS:
        assert page().count(f"| `{setting.name}` |") == 1
        assert page().count(f"**`{setting.name}`** {setting.prose}\n") == 1
        assert "|" not in setting.prose
