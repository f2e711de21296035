"""A run's metrics in a real Pushgateway (Debian's): what it takes, keeps and replaces."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest

from slackwater.kube.api_time import format_time
from slackwater.rebalancer.last_rotation import encode_last_rotation
from slackwater.rebalancer.metrics import METRICS, RoundMetrics, expose, push
from slackwater.rebalancer.run import run_once
from tests.unit.rebalancer.rotating_world import RUN, World
from tests.unit.rebalancer.workloads import rotated
from tools.cluster.processes import LOOPBACK, Processes, free_ports

NAME = "pushgateway"


def read(url: str) -> str:
    with build_opener(ProxyHandler({})).open(url, timeout=300) as answer:
        return str(answer.read().decode())


def is_ready(url: str) -> bool:
    try:
        return "OK" in read(f"{url}/-/ready")
    except OSError:
        return False


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[str]:
    program = shutil.which("prometheus-pushgateway")
    assert program, "there is no prometheus-pushgateway (Debian's package of that name)"
    url = f"http://{LOOPBACK}:{(port := free_ports(1)[0])}"
    processes = Processes(tmp_path)
    try:
        processes.start(NAME, [program, f"--web.listen-address={LOOPBACK}:{port}"])
        processes.wait_until("the Pushgateway", NAME, lambda: is_ready(url))
        yield url
    finally:
        processes.kill_all()


def pushed(world: World) -> tuple[str, bytes]:
    tally = RoundMetrics()
    tally.add(run_once(world.dependencies(), RUN))
    return expose(tally)


def test_every_metric_is_taken(gateway: str) -> None:
    world = World()
    world.annotation = encode_last_rotation(rotated(), format_time)
    assert push(gateway, *pushed(world)) == ""
    kept = read(f"{gateway}/metrics")
    for metric in METRICS:
        assert f"# TYPE {metric.name} {metric.kind.value}\n" in kept
    series = 'rebalancer_improvement_calculated{instance="",job="slackwater-rebalancer",'
    assert f'{series}namespace="shop",workload="web"}} 34.78' in kept


def test_a_run_replaces_the_one_before(gateway: str) -> None:
    """What the second run does not know must not stay from the first."""
    assert push(gateway, *pushed(World())) == ""
    assert push(gateway, *pushed(World({"A": 0.5, "B": 0.4}))) == ""
    kept = read(f"{gateway}/metrics")
    assert "rebalancer_improvement_calculated{" not in kept
    assert "rebalancer_safety_threshold_current{" in kept


def test_what_it_refuses_is_a_sentence(gateway: str) -> None:
    problem = push(gateway, "text/plain; version=0.0.4", b"this is no metric\n")
    assert "it answered 400" in problem
