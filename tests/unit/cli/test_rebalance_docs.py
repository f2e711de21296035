"""The page and the examples are made of what the code says."""

from pathlib import Path

import msgspec
import pytest
import yaml

from slackwater.cli.rebalance_options import variables_of
from slackwater.cli.rebalance_settings import resolve
from slackwater.contract.rebalancer_environment import DEFAULTS, VARIABLES, WORKLOAD
from slackwater.rebalancer.guards import GuardVerdict
from slackwater.rebalancer.plan_view import HpaView, LeftOutView, PlanView, PodView
from slackwater.rebalancer.reason import PROBLEMS, Reason
from slackwater.rebalancer.rotation import RemovalOutcome
from slackwater.rebalancer.selection import PodGroup
from slackwater.settings.rebalancer_document import SETTINGS
from slackwater.settings.setting import Setting

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/rebalance.md"
EXAMPLES = ROOT / "examples/rebalancer"
HEAD, MARK, REST = PAGE.read_text().partition("<!-- settings -->\n")
AGAIN = (
    "docs/reference/rebalance.md is old below its mark; put there what this module's "
    "settings_part() says"
)


def settings_table() -> str:
    head = "| key | flag | variables | default | bound |\n|---|---|---|---|---|\n"
    return head + "".join(row(each) for each in SETTINGS)


def row(setting: Setting) -> str:
    names = ", ".join(f"`{name}`" for name in reversed(variables_of(setting)))
    default = setting.default
    if setting.key in DEFAULTS:
        default += f"; with `DEPLOYMENT_NAME`: {DEFAULTS[setting.key]}"
    return f"| `{setting.key}` | `{setting.flag}` | {names} | {default} | {setting.bound} |\n"


def settings_prose() -> str:
    return "\n".join(f"**`{each.key}`** {each.description}\n" for each in SETTINGS)


def settings_part() -> str:
    """The generated part of the page."""
    return f"{settings_table()}\n### What they do\n\n{settings_prose()}"


def test_the_settings_on_the_page_are_the_settings() -> None:
    assert settings_part() == REST, AGAIN


def test_every_setting_is_told_once_in_the_table_and_once_in_prose() -> None:
    for entry in SETTINGS:
        assert settings_table().count(f"| `{entry.key}` | `{entry.flag}` |") == 1
        assert settings_prose().count(f"**`{entry.key}`** {entry.description}\n") == 1
        assert f"`{entry.variable}`" in settings_table()


def test_every_variable_of_the_original_is_on_the_page() -> None:
    for name in (*VARIABLES.values(), WORKLOAD):
        assert f"`{name}`" in HEAD + settings_table()


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_told(reason: Reason) -> None:
    mark = "✗" if reason in PROBLEMS else ""
    (row,) = [line for line in HEAD.splitlines() if line.startswith(f"| `{reason.value}` |")]
    assert row.split("|")[2].strip() == mark
    assert row.split("|")[3].strip()


@pytest.mark.parametrize("struct", [PlanView, PodView, HpaView, LeftOutView, GuardVerdict])
def test_every_field_of_the_data_is_told(struct: type[msgspec.Struct]) -> None:
    section = HEAD.partition("## `plan -o json`")[2].partition("## The lines")[0]
    for field in struct.__struct_encode_fields__:
        assert field in section


def test_every_group_and_fate_is_told() -> None:
    for word in (*PodGroup, *RemovalOutcome):
        assert f"`{word.value}`" in HEAD


def test_links_lead_somewhere() -> None:
    links = [part.partition(")")[0] for part in HEAD.split("](")[1:]]
    assert links
    for link in links:
        assert (PAGE.parent / link).exists(), link


def test_the_example_of_several_workloads_is_read() -> None:
    found = resolve((), str(EXAMPLES / "workloads.yaml"), {}, {})
    assert found.warnings == ()
    assert [(each.namespace, each.name) for each in found.settings.workloads] == [
        ("shop", "web"),
        ("shop", "checkout"),
        ("ingestion", "consumer"),
    ]
    assert found.settings.dry_run


def test_the_example_of_a_drop_in_is_read() -> None:
    document = yaml.safe_load((EXAMPLES / "drop-in-cronjob.yaml").read_text())
    pod = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["args"] == ["rebalance", "run"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert set(environment) <= {*VARIABLES.values(), WORKLOAD}
    found = resolve((), "", {}, environment)
    assert found.warnings == ()
    assert found.settings.workloads[0].name == "consumer"
