"""Sources that objects describe: asked while they are there, and nothing is started without any."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from slackwater.contract.crane.ensurance_set import NO_OBJECTS, EnsuranceObjects, read_ensurance
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Sample
from slackwater.model.units import Micros
from slackwater.observation.probes.object_sources import NodePlace, ObjectSources
from tests.unit.observation.probes.probe_world import unstamped

QUEUE = MetricKey("queue_length", "NodeQOS/latency")
PATIENCE = 60.0


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"queue_length 7\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), _Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def now() -> Micros:
    return Micros(time.monotonic_ns() // 1000)


def sources() -> ObjectSources:
    return ObjectSources(Micros(1_000_000), now, CgroupMounts({}))


def objects(port: int) -> EnsuranceObjects:
    document = {
        "apiVersion": "ensurance.crane.io/v1alpha1",
        "kind": "NodeQOS",
        "metadata": {"name": "latency"},
        "spec": {
            "nodeQualityProbe": {"httpGet": {"host": "127.0.0.1", "port": port}},
            "rules": [
                {
                    "name": "long",
                    "actionName": "throttle",
                    "metricRule": {"name": "queue_length", "value": 5},
                }
            ],
        },
    }
    found = read_ensurance("NodeQOS", document, "here")
    assert found is not None
    return found


def test_a_probe_is_asked_from_its_object_to_its_answer(port: int) -> None:
    found = sources()
    found.update(objects(port), ())
    try:
        deadline = time.monotonic() + PATIENCE
        while isinstance(seen := found.samples(QUEUE, now()), Gap):
            assert time.monotonic() < deadline, seen
            time.sleep(0.01)
        assert unstamped(seen) == (Sample(7.0),)
        found.update(NO_OBJECTS, ())
        assert isinstance(found.samples(QUEUE, now()), Gap)
    finally:
        found.stop()


def test_the_example_of_a_metric_is_read_from_its_file(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "examples/ensurance-metric/queue-depth.yaml").read_text()
    (document, *_) = yaml.safe_load_all(text)
    read = read_ensurance(document["kind"], document, "here")
    assert read is not None
    (metric,) = read.metrics
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics/queue.prom").write_text(
        'queue_length{PodNamespace="batch",PodName="w"} 40\n'
    )
    place = NodePlace("here", folder=str(tmp_path))
    found = ObjectSources(Micros(1_000_000), now, CgroupMounts({}), place)
    found.update(read, ())
    try:
        while isinstance(seen := found.samples(metric.key(), now()), Gap):
            time.sleep(0.01)
        assert unstamped(seen) == (Sample(40.0, {"PodNamespace": "batch", "PodName": "w"}),)
    finally:
        found.stop()


def test_without_an_object_nothing_is_asked() -> None:
    found = sources()
    found.update(NO_OBJECTS, ())
    gap = found.samples(QUEUE, now())
    assert gap == Gap("there is no NodeQOS/latency that could be asked")
    found.stop()


def test_an_agent_without_objects_does_not_have_the_code() -> None:
    script = (
        "import sys, slackwater.agent.launch\n"
        "late = ('probe_set', 'http_probe', 'plugin_process', 'subprocess')\n"
        "print([m for m in sys.modules if m.endswith(late)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
