"""`slackwater rebalance` as commands: answers, refusals, exit codes, and what is changed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from click.testing import CliRunner

from slackwater.cli.rebalance import rebalance as group
from slackwater.cli.rebalance_run import Reread, level_of
from slackwater.cli.rebalance_settings import resolve
from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry
from slackwater.settings.rebalancer import LogLevel
from tests.unit.cli.rebalance_world import World, clean, kubeconfig, rebalance, served_world

pytestmark = pytest.mark.long

Done = subprocess.CompletedProcess[str]
Ask = Callable[..., Done]


@pytest.fixture
def world() -> Iterator[World]:
    with served_world() as made:
        yield made


@pytest.fixture
def ask(world: World, tmp_path: Path) -> Ask:
    def run(*arguments: str, **environment: str) -> Done:
        reached = {
            "SLACKWATER_KUBECONFIG": kubeconfig(tmp_path, world.address),
            "PROMETHEUS_ENDPOINT": world.address,
            "SLACKWATER_REBALANCE_PROMETHEUS_RETRIES": "0",
        }
        return rebalance(*arguments, **(reached | environment))

    return run


@pytest.fixture
def workloads(tmp_path: Path) -> Callable[..., str]:
    def write(*listed: dict[str, Any], **spec: Any) -> str:
        head = {"apiVersion": "slackwater.io/v1", "kind": "RebalancerSettings"}
        path = tmp_path / "workloads.yaml"
        path.write_text(yaml.safe_dump({**head, "spec": {**spec, "workloads": list(listed)}}))
        return str(path)

    return write


def test_plan_tells_the_seed_s_example(ask: Ask, world: World) -> None:
    done = ask("plan", "web", "-n", "shop")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Deployment shop/web: rotate 4 of 6 pods\n")
    assert "34.8%" in done.stdout
    assert done.stdout.endswith("  1. web-a, web-f\n  2. web-b, web-e\n")
    assert "\x1b" not in done.stdout
    assert world.changes() == []


def test_plan_as_json_and_yaml(ask: Ask, world: World) -> None:
    data = json.loads(ask("plan", "web", "-n", "shop", "-o", "json").stdout)
    assert data["kind"] == "RebalancePlan"
    assert data["evict"] == ["web-a", "web-b", "web-f", "web-e"]
    assert round(data["improvement"], 1) == 34.8
    hot = data["pods"][0]
    assert (hot["percentOfRequest"], round(hot["percentOfTarget"], 1)) == (120.0, 171.4)
    again = yaml.safe_load(ask("plan", "web", "-n", "shop", "-o", "yaml").stdout)
    for each in (*data["pods"], *again["pods"]):
        del each["age"]
    assert again == data
    assert world.changes() == []


def test_plan_tells_what_prometheus_warns_of(ask: Ask, world: World) -> None:
    """As `run` does; not among the results."""
    world.warning = "a store is away"
    done = ask("plan", "web", "-n", "shop")
    assert done.stderr == "usage in namespace shop: Prometheus warns: a store is away\n"
    assert "a store is away" not in done.stdout


def test_plan_of_a_file(ask: Ask, workloads: Callable[..., str]) -> None:
    file = workloads(
        {"name": "web"}, {"name": "api"}, defaults={"namespace": "shop", "tolerance": 1.6}
    )
    done = ask("plan", "--file", file, "-o", "json")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert data["kind"] == "RebalancePlanList"
    web, api = data["items"]
    assert (web["threshold"], web["evict"]) == (1.12, ["web-a", "web-f", "web-e"])
    assert (api["reason"], api["problem"]) == ("workload_missing", True)
    assert ask("plan", "web", "--file", file).returncode == 0


def test_the_original_s_environment(ask: Ask, world: World) -> None:
    env = {"DEPLOYMENT_NAME": "web", "KUBE_NAMESPACE": "shop", "DRY_RUN": "true"}
    world.pods["web-a"]["metadata"]["labels"] = {"app": "consumer"}
    done = ask("plan", "-o", "json", **env)
    assert [pod["name"] for pod in json.loads(done.stdout)["pods"]] == ["web-a"]
    for pod in world.pods.values():
        pod["metadata"]["labels"] = {"app": "consumer"}
    done = ask("run", STRATEGY="x", **env)
    assert (done.returncode, done.stderr) == (
        0,
        "slackwater: STRATEGY is set, but means nothing any more\n",
    )
    *pods, line = map(json.loads, done.stdout.splitlines())
    assert (line["what"], line["result"]) == ("Deployment shop/web", "dry_run")
    assert [pod["what"] for pod in pods] == [f"Pod shop/web-{name}" for name in "afbe"]
    assert line["after"] == "web-a, web-f, web-b, web-e"
    assert world.changes() == []


def test_run_rotates_in_batches(ask: Ask, world: World) -> None:
    done = ask("run", "web", "-n", "shop", "--batch-size", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert world.evicted() == ["web-a", "web-f", "web-b", "web-e"]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["result"] for each in told] == ["evicted"] * 4 + ["rotated"]
    assert all(each["time"].endswith("Z") for each in told)


def test_a_level_keeps_lines_back(ask: Ask, world: World) -> None:
    assert ask("run", "web", "-n", "shop", "--dry-run", LOG_LEVEL="warn").stdout == ""
    world.broken = (500, b"")
    done = ask("run", "web", "-n", "shop", "--log-level", "error")
    (line,) = done.stdout.splitlines()
    assert (done.returncode, json.loads(line)["result"]) == (1, "prometheus_error")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ((500, b"oops"), "prometheus_error"),
        ((200, b"<html>sign in</html>"), "prometheus_error"),
        (
            (200, b'{"status":"success","data":{"resultType":"vector","result":[]}}'),
            "no_usage_data",
        ),
    ],
)
def test_a_prometheus_that_is_no_help(
    ask: Ask, world: World, broken: tuple[int, bytes], reason: str
) -> None:
    world.broken = broken
    for command in ("plan", "run"):
        done = ask(command, "web", "-n", "shop", *(("-o", "json") if command == "plan" else ()))
        assert done.returncode == 1
        data = json.loads(done.stdout)
        assert reason in (data.get("reason"), data.get("result"))
        assert "Traceback" not in done.stderr
    assert world.evicted() == []


@pytest.mark.parametrize(
    ("arguments", "env", "sentence"),
    [
        ((), {}, "no workload is named: say one, or --file, or set DEPLOYMENT_NAME"),
        (("web", "--top-k", "0"), {}, "--top-k is 0, but must be a whole number, at least 1"),
        (("web",), {"DRY_RUN": "yes"}, "DRY_RUN is 'yes', but must be true or false"),
        (
            ("web",),
            {"LOG_LEVEL": "INFO"},
            "LOG_LEVEL is 'INFO', but must be one of debug, info, warn, error",
        ),
        (("--file", "nowhere.yaml"), {}, "nowhere.yaml is "),
        (("web", "--kubeconfig", "nowhere"), {}, "--kubeconfig: nowhere is not there"),
        (
            ("web", "--prometheus-token-file", "/gone"),
            {},
            "--prometheus-token-file is '/gone', but must be a file that can be read",
        ),
    ],
)
@pytest.mark.parametrize("command", ["plan", "run", "loop"])
def test_wrong_settings(
    command: str, arguments: tuple[str, ...], env: dict[str, str], sentence: str
) -> None:
    unset: dict[str, str | None] = dict.fromkeys(set(os.environ) - set(clean()))
    done = CliRunner(env={**unset, **env}).invoke(group, [command, *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("slackwater: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--version",), ("nothing",), ("run", "--no-such-flag")])
def test_an_unknown_argument_is_no_run(arguments: tuple[str, ...]) -> None:
    """Facts trap 25: the original ran for real."""
    done = rebalance(*arguments, DEPLOYMENT_NAME="web")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such" in done.stderr


def test_help_shows_flag_variable_default_and_bound() -> None:
    told = " ".join(rebalance("run", "--help").stdout.split())
    for words in (
        "--top-k COUNT",
        "--dry-run / --no-dry-run",
        "Default: 1.5. Bound: at least 1. [env: SLACKWATER_REBALANCE_TOLERANCE or TOLERANCE_MULT",
        "Default: twice the window. Bound: 0s to 24h. [env: SLACKWATER_REBALANCE_COOLDOWN]",
        "-n, --namespace NAMESPACE",
    ):
        assert words in told


def test_no_cluster_is_one_sentence(tmp_path: Path) -> None:
    done = rebalance("plan", "web", HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_the_loop_listens_tells_and_ends(world: World, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "slackwater", "rebalance", "loop", "web", "-n", "shop",
         "--dry-run", "--listen", "127.0.0.1:0", "--prometheus-endpoint", world.address],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=clean(SLACKWATER_KUBECONFIG=kubeconfig(tmp_path, world.address)),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        told = [json.loads(process.stdout.readline()) for _ in range(7)]
        said = {each["what"]: each for each in told}
        assert said["Pod shop/web-a"]["before"] == "1.2 cores"
        assert said["Deployment shop/web"]["result"] == "dry_run"
        address = said["endpoint"]["because"].removeprefix("listening on ")
        with urlopen(f"{address}/metrics", timeout=300) as answer:  # noqa: S310 - our own
            assert b"rebalancer_" in answer.read()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")
    assert world.changes() == []


def test_an_address_that_is_taken(ask: Ask, world: World) -> None:
    taken = world.address.removeprefix("http://")
    done = ask("loop", "web", "-n", "shop", "--dry-run", "--listen", taken)
    assert done.returncode == 1
    assert done.stderr == f"slackwater: cannot listen on {taken}: Address already in use\n"


def test_a_changed_file_counts_from_the_next_round_on(
    workloads: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", clean())
    file = workloads({"name": "web"})
    told: list[JournalEntry] = []
    first = resolve((), file, {}, {}).settings
    source = Reread((), file, {}, first, told.append)
    assert source.settings() == first
    workloads({"name": "web", "topK": 5})
    assert source.settings().workloads[0].moves.top_k == 5
    workloads({"name": "web", "topK": 0}, removal="x")
    for _ in range(2):
        assert source.settings().workloads[0].moves.top_k == 5
    (entry,) = told
    assert entry.result == "refused"
    assert entry.because.endswith("at least 1; the settings stay as they were")
    assert "removal is 'x', but must be one of evict, delete; " in entry.because
    workloads({"name": "api"})
    assert source.settings().workloads[0].name == "api"


@pytest.mark.parametrize(
    ("result", "level"),
    [
        ("", LogLevel.INFO),
        ("rotated", LogLevel.INFO),
        ("dry_run", LogLevel.INFO),
        ("evicted", LogLevel.INFO),
        ("cooldown", LogLevel.INFO),
        ("pdb_blocked", LogLevel.WARN),
        ("stopped", LogLevel.WARN),
        ("failed", LogLevel.ERROR),
        ("refused", LogLevel.ERROR),
        ("prometheus_error", LogLevel.ERROR),
        ("hpa_target_missing", LogLevel.ERROR),
    ],
)
def test_levels(result: str, level: LogLevel) -> None:
    assert level_of(JournalEntry(0, Micros(0), "x", result=result)) is level
