"""Files and selectors among the settings: who said the wrong one, told before anything is asked."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.cli.output import WrongSettings
from slackwater.cli.rebalance_settings import resolve, resolved

GONE = "but must be a file that can be read (not readable: No such file or directory)"
FOLDER = "but must be a file that can be read (not readable: not a regular file)"
SELECTOR = "but must be a label selector such as app=web, or empty"
BROKERS = {"kafka": {"lagEnabled": True, "bootstrapServers": ["a:1"], "caFile": "/gone"}}


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(**spec: Any) -> str:
        path = tmp_path / "workloads.yaml"
        head = {"apiVersion": "slackwater.io/v1", "kind": "RebalancerSettings"}
        path.write_text(yaml.safe_dump({**head, "spec": spec}))
        return str(path)

    return write


def refused(names: tuple[str, ...], file: str, flags: Any, environment: Any) -> list[str]:
    with pytest.raises(WrongSettings) as caught:
        resolved(names, file, flags, environment)
    assert caught.value.exit_code == 2
    return caught.value.message.split("\nslackwater: ")


@pytest.mark.parametrize(
    ("flags", "environment", "where"),
    [
        ({"selector": "app in (web"}, {}, "--selector"),
        ({}, {"KUBE_LABEL_SELECTOR": "app in (web"}, "KUBE_LABEL_SELECTOR"),
        (
            {},
            {"SLACKWATER_REBALANCE_SELECTOR": "app in (web"},
            "SLACKWATER_REBALANCE_SELECTOR",
        ),
    ],
)
def test_who_said_a_bad_selector(flags: Any, environment: Any, where: str) -> None:
    assert refused(("web",), "", flags, environment) == [f"{where} is 'app in (web', {SELECTOR}"]


def test_a_file_s_bad_selectors(file: Any) -> None:
    listed = [{"name": "web"}, {"name": "api", "selector": "=b"}]
    path = file(defaults={"selector": "app in a"}, workloads=listed)
    assert refused((), path, {}, {}) == [
        f"{path}: spec.defaults.selector is 'app in a', {SELECTOR}",
        f"{path}: spec.workloads[1].selector is '=b', {SELECTOR}",
    ]


def test_bad_selectors_are_told_with_the_other_bad_values() -> None:
    told = refused(("web",), "", {"selector": "a in b", "top_k": "0"}, {})
    assert [sentence.partition(" is ")[0] for sentence in told] == ["--selector", "--top-k"]


@pytest.mark.parametrize(
    ("flags", "environment", "where"),
    [
        ({"prometheus_token_file": "/gone"}, {}, "--prometheus-token-file"),
        (
            {},
            {"SLACKWATER_REBALANCE_PROMETHEUS_CA_FILE": "/gone"},
            "SLACKWATER_REBALANCE_PROMETHEUS_CA_FILE",
        ),
    ],
)
def test_a_file_that_cannot_be_read(flags: Any, environment: Any, where: str) -> None:
    assert refused(("web",), "", flags, environment) == [f"{where} is '/gone', {GONE}"]


def test_all_of_them_are_told(file: Any, tmp_path: Path) -> None:
    listed = [{"name": "web"}, {"name": "api"}, {"name": "db", "kafka": {"caFile": "/other"}}]
    path = file(defaults=BROKERS, workloads=listed, prometheus={"tokenFile": str(tmp_path)})
    assert refused((), path, {}, {}) == [
        f"{path}: kafka.caFile is '/gone', {GONE}",
        f"{path}: kafka.caFile is '/other', {GONE}",
        f"{path}: prometheus.tokenFile is '{tmp_path}', {FOLDER}",
    ]


@pytest.mark.parametrize("kafka", [{"lagEnabled": False}, {"bootstrapServers": []}])
def test_brokers_that_nobody_asks_need_no_files(file: Any, kafka: Any) -> None:
    defaults = {"kafka": {**BROKERS["kafka"], **kafka}}
    assert resolved((), file(defaults=defaults, workloads=[{"name": "web"}]), {}, {}).workloads


def test_files_that_are_there(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    found = resolved(("web",), "", {"prometheus_token_file": str(token)}, {})
    assert found.prometheus.token_file == str(token)


def test_a_running_loop_reads_them_at_each_query_and_not_with_the_settings() -> None:
    """A secret that is away for a moment is no reason to refuse the settings."""
    flags = {"prometheus_ca_file": "/gone"}
    assert resolve(("web",), "", flags, {}).settings.prometheus.ca_file == "/gone"
