"""The chart's files against each other and against the package: what helm is not needed for."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater import __version__
from slackwater.cli.cluster_options import NAMESPACE
from slackwater.cli.host_options import LASTING, STATE
from slackwater.cli.install import IMAGE, MANAGER_IMAGE, PROGRAMS
from slackwater.model.problem import InvalidError
from slackwater.policies.catalog import SETTINGS
from tools import manifests
from tools.cluster.playground import ON_THIS_NODE
from tools.image import DEBIAN_PACKAGES
from tools.manifests import CHART, SCHEMA, schema, settings_schema
from tools.provision import ROOT, UV_VERSION, packages_for

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
TEMPLATES = sorted((CHART / "templates").iterdir())


def test_versions_are_in_step() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    plain, _, development = __version__.partition(".dev")
    assert chart["version"] == (f"{plain}-dev.{development}" if development else plain)


def test_no_image_is_named_that_somebody_else_may_own() -> None:
    assert VALUES["image"]["repository"] == VALUES["manager"]["image"]["repository"] == ""
    assert IMAGE.partition("/")[0].endswith(".invalid")
    assert IMAGE.replace("/slackwater:", "/slackwater-manager:") == MANAGER_IMAGE
    packaged = yaml.safe_load_all((manifests.FOLDER / PROGRAMS).read_text())
    text = "\n".join(json.dumps(each) for each in packaged)
    assert set(re.findall(r'"image": "([^"]*)"', text)) == {IMAGE, MANAGER_IMAGE}


@pytest.mark.parametrize("path", [
    *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", CHART / "templates" / "NOTES.txt",
    *(ROOT / "src").rglob("*.py"),
], ids=lambda path: path.name)  # fmt: skip
def test_nothing_is_installed_by_a_name_that_we_do_not_own(path: Path) -> None:
    if "adr" in path.parts:
        return
    assert not re.search(r"pip install '?slackwater|[ =\"]slackwater/slackwater", path.read_text())


def test_the_dockerfile_uses_our_uv() -> None:
    wanted = ".".join(map(str, UV_VERSION))
    assert f"ARG UV_VERSION={wanted}\n" in (ROOT / "Dockerfile").read_text()


def test_setup_installs_what_the_image_needs() -> None:
    assert {*DEBIAN_PACKAGES} <= {*packages_for("test")}


def test_the_schema_holds_our_settings_as_they_are() -> None:
    """Else: .venv/bin/python -m tools.manifests."""
    assert SCHEMA.read_text() == schema()


def test_the_packaged_manifests_are_there() -> None:
    packaged = (manifests.FOLDER / PROGRAMS).read_text()
    found = [each for each in yaml.safe_load_all(packaged) if each]
    assert {each["metadata"].get("namespace", NAMESPACE) for each in found} == {NAMESPACE}
    assert f"version: {json.dumps(__version__)}" in packaged


INSTALL = (ROOT / "docs" / "install.md").read_text()


def test_no_value_of_the_page_is_an_empty_list_in_braces() -> None:
    """helm makes [""] of it, which the schema refuses."""
    assert not re.search(r"`[\w.]+=\{\}`", INSTALL)
    assert "agent.capabilities=null" in ON_THIS_NODE
    assert INSTALL.count("`agent.capabilities=null`") == 3


def test_the_pages_patch_fits_the_plain_manifests() -> None:
    [patch] = re.findall(r"-p '(\[.*\])'\n", INSTALL)
    found = yaml.safe_load_all((manifests.FOLDER / PROGRAMS).read_text())
    [place] = [each for each in found if each and each["kind"] == "DaemonSet"]
    [step] = json.loads(patch)
    for name in step["path"].removeprefix("/").split("/"):
        place = place[int(name) if name.isdigit() else name]
    assert (step["op"], place) == ("remove", ["SYS_RESOURCE"])


# --- values.yaml and its schema say the same


def properties(node: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return properties(whole["definitions"][node["$ref"].rpartition("/")[2]], whole)
    found: dict[str, Any] = node.get("properties", {})
    return found


_FREE = (".agent.settings", ".agent.updateStrategy", ".rebalancer.settings")


def differences(values: dict[str, Any], node: dict[str, Any], where: str = "") -> list[str]:
    """Keys that only one of them knows. Below a folder of free keys there is nothing to compare."""
    whole = json.loads(SCHEMA.read_text())
    known = properties(node, whole)
    if not known or where in _FREE:
        return []
    found = [f"{where}.{key}" for key in {*values} ^ {*known} if key not in ("global", "claims")]
    for key in {*values} & {*known}:
        if isinstance(values[key], dict):
            found += differences(values[key], known[key], f"{where}.{key}")
    return found


def test_every_value_has_a_schema_and_a_default() -> None:
    assert differences(VALUES, json.loads(SCHEMA.read_text())) == []


def test_every_value_is_used_by_a_template() -> None:
    text = "".join(path.read_text() for path in TEMPLATES)
    used = {word for found in re.findall(r"[$.][A-Za-z.$]+", text) for word in found.split(".")}
    # keys of these are passed on whole
    whole = {"resources", "requests", "limits", "updateStrategy", "rollingUpdate", "nodeSelector",
             "labels"}  # fmt: skip

    def names(values: dict[str, Any]) -> set[str]:
        inner = (names(each) for key, each in values.items()
                 if isinstance(each, dict) and key not in whole)  # fmt: skip
        return {*values}.union(*inner)

    assert names(VALUES) - used - {"proc", "cgroup"} == set()


def test_every_value_is_explained_or_named_by_its_neighbours() -> None:
    """A comment stands above each part of values.yaml."""
    rows = (CHART / "values.yaml").read_text().splitlines()
    tops = [number for number, row in enumerate(rows) if re.match(r"[a-z]", row)]
    assert [rows[number] for number in tops if not rows[number - 1].startswith("#")] == []


# --- settings in the schema are the settings


SECTIONS: dict[str, Any] = settings_schema()["properties"]  # type: ignore[assignment]


def settings(section: str, key: str, value: object) -> dict[str, object]:
    return {
        "apiVersion": "slackwater.io/v1",
        "kind": "AgentSettings",
        "spec": {section: {key: value}},
    }


def test_the_schema_knows_every_setting() -> None:
    shown = {f"{name}.{key}" for name, section in SECTIONS.items() for key in section["properties"]}
    assert shown == {each.key for each in SETTINGS.rows}


@pytest.mark.parametrize(
    ("section", "key"),
    [(name, key) for name, section in SECTIONS.items() for key in section["properties"]],
)
def test_what_the_schema_bounds_the_agent_bounds_too(section: str, key: str) -> None:
    told = SECTIONS[section]["properties"][key]
    good, bad = _examples(told)
    for value in good:
        SETTINGS.read_file(settings(section, key, value), "test")
    for value in bad:
        with pytest.raises(InvalidError):
            SETTINGS.read_file(settings(section, key, value), "test")


def _examples(told: dict[str, Any]) -> tuple[list[object], list[object]]:
    """Values at the bounds, and just beyond them."""
    if told.get("type") == "integer":
        ends = [told[end] for end in ("minimum", "maximum") if end in told]
        beyond = [told["minimum"] - 1] if "minimum" in told else []
        return ends, beyond + ([told["maximum"] + 1] if "maximum" in told else [])
    if "enum" in told:
        return told["enum"], ["another"]
    if told.get("type") == "boolean":
        return [True, False], ["yes"]
    if told.get("type") == "array":
        return [[], ["batch-cpu"]], ["batch-cpu", [7]]
    is_duration = told["pattern"] == manifests._DURATION
    return ([], ["1", "x"]) if is_duration else (["example.com/batch-cpu"], ["cpu", "/"])


# --- templates


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_are_small(path: Any) -> None:
    assert len(path.read_text().splitlines()) <= 170


def test_the_state_is_where_the_command_line_looks() -> None:
    """`kubectl exec POD -- slackwater explain` asks the agent whose address is noted there."""
    text = (CHART / "templates/agent-daemonset.yaml").read_text()
    for name, folder in (("state", STATE), ("lasting", LASTING)):
        assert f"mountPath: {folder}\n" in text
        assert VALUES["agent"]["paths"][name] == folder
    assert STATE.startswith("/run/"), "void with the boot, and never full or read-only"


def test_the_agent_has_the_systems_class_and_tenants_none_of_ours() -> None:
    """The kubelet gives a pod of that class an OOM score of -997; any tenant may name any class but
    the system's."""
    found = [each for each in yaml.safe_load_all((manifests.FOLDER / PROGRAMS).read_text()) if each]
    assert "PriorityClass" not in {each["kind"] for each in found}
    [agent] = [each for each in found if each["kind"] == "DaemonSet"]
    assert agent["spec"]["template"]["spec"]["priorityClassName"] == "system-node-critical"
    assert not any("PriorityClass\nmetadata" in path.read_text() for path in TEMPLATES)


def test_least_privilege_is_written_down_once() -> None:
    """No star, no secrets, no escalation, in any role. Who deletes is the rebalancer, where its
    settings say so."""
    text = "".join(path.read_text() for path in TEMPLATES if "rbac" in path.name)
    verbs = {verb for row in re.findall(r"verbs: \[(.*)\]", text) for verb in row.split(", ")}
    assert verbs == {"list", "watch", "get", "patch", "create", "update", "delete"}
    assert text.count("verbs: [delete]") == 1
    assert "*" not in re.sub(r"#.*", "", text)
    for word in ("secrets", "impersonate", "escalate", "bind,", "serviceaccounts/token"):
        assert word not in text
