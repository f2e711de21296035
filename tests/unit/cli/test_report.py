"""`slackwater report`: from a served API server and a served Prometheus to a file, and refusals."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from slackwater.cli.main import slackwater
from slackwater.cli.report import report
from tests.unit.cli.test_status import kubeconfig
from tests.unit.http.prometheus_world import clear_proxies
from tests.unit.kube.byte_server import Request, Wire, serving
from tests.unit.kube.fake_api import status
from tests.unit.report.served_prometheus import Answers, served_prometheus

DAY = 86_400.0
NODE = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "3500m"}}}
POD = {
    "metadata": {
        "name": "db-0", "namespace": "shop",
        "ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": True}],
    },
    "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
    "status": {"phase": "Running"},
}  # fmt: skip
ANSWERS: Answers = {
    "- sum by (instance)": [
        ({"instance": "n1:9100"}, lambda at: 1 + 0.5 * math.sin(2 * math.pi * at / DAY))
    ],
    "count by (instance) (count": [({"instance": "n1:9100"}, lambda _: 4.0)],
    "count(count by (namespace, pod)": [({}, lambda _: 1.0)],
    "sum by (namespace, pod)": [({"namespace": "shop", "pod": "db-0"}, lambda _: 0.25)],
}


@pytest.fixture(autouse=True)
def _without_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_proxies(monkeypatch)
    for name in ("KUBECONFIG", "SLACKWATER_KUBECONFIG", "SLACKWATER_PROMETHEUS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(slackwater, ["report", *arguments])


@contextmanager
def world(
    folder: Path, answers: Answers = ANSWERS, refused: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The flags with which it is reached; `refused` are paths that this user may not list."""

    def answer(request: Request, wire: Wire) -> None:
        if request.path in refused:
            wire.json(status(403, "Forbidden", "nodes is forbidden"), 403)
            return
        found: dict[str, list[Any]] = {"/api/v1/nodes": [NODE], "/api/v1/pods": [POD]}
        assert request.method == "GET"
        wire.json({"metadata": {"resourceVersion": "1"}, "items": found[request.path]})

    with ExitStack() as open_servers:
        cluster = open_servers.enter_context(serving(answer))
        prometheus = open_servers.enter_context(served_prometheus(answers))
        file = kubeconfig(folder, f"http://127.0.0.1:{cluster.port}")
        yield ("--kubeconfig", file, "--prometheus-endpoint", f"http://127.0.0.1:{prometheus.port}")


def test_json_of_a_whole_cluster(tmp_path: Path) -> None:
    with world(tmp_path) as flags:
        done = run(*flags, "-o", "json", "--days", "2", "--price", "0.05")
    assert done.exit_code == 0, done.output
    whole = json.loads(done.stdout)
    [node] = whole["nodes"]
    assert (node["node"], node["allocatable"]) == ("n1", 3.5)
    assert node["used"] == pytest.approx(1.0, abs=0.01)
    assert whole["offer"]["estimators"][0]["windows"] > 0
    assert whole["workloads"] == [
        {"namespace": "shop", "workload": "StatefulSet/db", "pods": 1, "used": 0.25, "peak": 0.25,
         "requested": 1.0}
    ]  # fmt: skip
    assert whole["savings"]["money"] > 0
    assert whole["slackwater"] is None
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("form", "begins"),
    [("html", "<!DOCTYPE html>"), ("markdown", "# CPU of http://127"), ("csv", "table,")],
)
def test_other_forms(tmp_path: Path, form: str, begins: str) -> None:
    with world(tmp_path) as flags:
        done = run(*flags, "-o", form, "--days", "1")
    assert done.exit_code == 0
    assert done.stdout.startswith(begins)


def test_it_goes_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    with world(tmp_path) as flags:
        done = run(*flags, "--days", "1", "--file", str(file))
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == f"slackwater: wrote {file}"
    assert file.read_text().startswith("<!DOCTYPE html>")
    # That a day is too short is told as well.
    assert "no forecast could be tried" in done.stderr


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with world(tmp_path) as flags:
        done = run(*flags, "--days", "1", "--file", str(tmp_path / "none" / "x"))
    assert done.exit_code == 1
    assert done.stderr == (
        f"slackwater: {tmp_path}/none/x cannot be written: No such file or directory\n"
    )


def test_without_the_right_to_list_nodes(tmp_path: Path) -> None:
    with world(tmp_path, refused=("/api/v1/nodes",)) as flags:
        done = run(*flags, "--days", "1", "-o", "json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["nodes"][0]["allocatable"] == 4.0
    assert "nodes could not be listed, so each counts with all its CPUs: " in done.stderr
    assert "refused with 403 Forbidden: nodes is forbidden" in done.stderr


def test_a_prometheus_without_data_is_one_sentence(tmp_path: Path) -> None:
    with world(tmp_path, answers={}) as flags:
        done = run(*flags, "--prometheus-matchers", "cluster=eu, zone=a")
    assert (done.exit_code, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"slackwater: Prometheus at {flags[-1]} has neither node_cpu_seconds_")
    assert "(the kubelets' cAdvisor) with cluster=eu,zone=a: is it the one" in line


def test_a_prometheus_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with world(tmp_path) as flags:
        done = run(*flags[:2], "--prometheus-endpoint", "http://127.0.0.1:1")
    assert (done.exit_code, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("slackwater: Prometheus at http://127.0.0.1:1: ")


def test_a_cluster_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:1")
    done = run("--kubeconfig", file, "--prometheus-endpoint", "http://127.0.0.1:1")
    assert (done.exit_code, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--prometheus-endpoint", "localhost:9090"), "the endpoint of Prometheus is 'localhost"),
        (("--price", "-1"), "--price is -1.0, but must be a number above 0"),
        (("--price", "nan"), "--price is nan, but must be a number above 0"),
        (("--days", "0"), "'--days': 0 is not in the range 1<=x<=60"),
        (("--days", "61"), "'--days': 61 is not in the range 1<=x<=60"),
        (
            ("--prometheus-matchers", "a=b,c"),
            "--prometheus-matchers is 'c', but must be NAME=VALUE",
        ),
        (("-o", "table"), "'table' is not one of 'html', 'markdown', 'csv', 'json'"),
        (("--kubeconfig", "/none"), "--kubeconfig: /none"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: tuple[str, ...], told: str) -> None:
    done = run("--prometheus-endpoint", "http://127.0.0.1:1", *arguments)
    assert done.exit_code == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_the_page_names_every_flag_and_variable() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/report.md").read_text()
    rows = page.partition("| flag |")[2].partition("Exit codes")[0]
    for option in report.params:
        assert isinstance(option, click.Option)
        long = [each for each in option.opts if each.startswith("--")]
        assert f"`{long[0]}`" in rows or long[0] == "--help"
    named = set(re.findall(r"`(SLACKWATER_[A-Z_]+)`", rows))
    known = {each.envvar for each in report.params}
    assert named <= known
    for form in ("html", "markdown", "csv", "json"):
        assert f"| `{form}` |" in page


def test_prometheus_has_to_be_named() -> None:
    done = run()
    assert done.exit_code == 2
    assert "Missing option '--prometheus-endpoint'" in done.stderr


def test_html_is_not_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.cli.report._is_terminal", lambda: True)
    done = run("--prometheus-endpoint", "http://127.0.0.1:1")
    assert done.exit_code == 2
    assert "name a --file, or choose -o markdown" in done.stderr


def test_without_numpy_it_is_one_sentence(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:1")
    code = (
        "import sys\n"
        "sys.modules['numpy'] = None\n"
        "from slackwater.cli.main import main\n"
        f"sys.argv = ['slackwater', 'report', '--kubeconfig', {file!r}, '-o', 'csv',\n"
        "            '--prometheus-endpoint', 'http://127.0.0.1:1']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "slackwater: a report needs the package numpy: pip install '.[forecast]' in Slackwater's "
        "source\n"
    )
