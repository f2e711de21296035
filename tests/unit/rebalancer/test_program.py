"""The rebalancer put together, over real sockets: what it asks for, and how it ends."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import msgspec
import pytest

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.last_rotation import ANNOTATION
from slackwater.rebalancer.program import loop, plan, run
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.round_sources import ENDING
from slackwater.rebalancer.sources import kafka_brokers
from slackwater.record.journal import JournalEntry
from slackwater.runtime.http_exchange import ListenAddress
from slackwater.runtime.leadership import Candidate
from slackwater.runtime.wakeup import InterruptibleWakePipe
from slackwater.settings.prometheus import PrometheusSettings
from slackwater.settings.rebalancer import (
    KafkaSettings,
    RunSettings,
    UsageSource,
    WorkloadSettings,
)
from tests.unit.contract.served import Object, autoscaler, deployment, owned_pod, replica_set
from tests.unit.kube.accesses import plain_access
from tests.unit.kube.byte_server import ByteServer, Request, Wire
from tests.unit.kube.fake_api import status
from tests.unit.rebalancer.workloads import F6

METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
SETTINGS = RunSettings(
    workloads=(WorkloadSettings("shop", "web"),), usage_source=UsageSource.METRICS_API
)
CANDIDATE = Candidate("slackwater-system", "slackwater-rebalancer", "us")


class Cluster:
    """One Deployment of six pods; an evicted pod is replaced at once."""

    def __init__(self) -> None:
        self.deployment = deployment()
        self.set = replica_set("web-1", self.deployment)
        self.pods = {name: owned_pod(name, self.set) for name in F6}
        self.lease: Object | None = None
        self.events: list[Object] = []
        self.refuses_events = False
        self.refuses_leases = False
        self.hangs_at = ""
        self.server = ByteServer(self._answer)

    @property
    def port(self) -> int:
        return self.server.port

    def asked(self) -> list[str]:
        """What was to be changed, but for events and the lease."""
        return [
            f"{each.method} {each.path.rpartition('namespaces/')[2]}"
            for each in self.server.requests
            if each.method != "GET" and "events" not in each.path and "leases" not in each.path
        ]

    def _answer(self, request: Request, wire: Wire) -> None:
        if request.path == self.hangs_at:
            wire.hang()
        match request.method, request.path.split("/")[-1]:
            case "GET", "slackwater-rebalancer":
                self._shown(self.lease, wire)
            case "POST", "leases" if self.refuses_leases:
                wire.json(status(404, "NotFound", "namespaces not found"), 404)
            case (("POST" | "PUT"), "leases" | "slackwater-rebalancer"):
                self.lease = _body(request)
                self.lease["metadata"]["resourceVersion"] = str(len(self.server.requests))
                wire.json(self.lease)
            case "GET", _:
                found = self._list(request.path)
                wire.json({"metadata": {"resourceVersion": "1"}, "items": found})
            case "POST", "eviction":
                gone = self.pods.pop(request.path.split("/")[-2])["metadata"]["name"]
                self.pods[f"{gone}2"] = owned_pod(f"{gone}2", self.set)
                wire.json({"kind": "Status"}, 201)
            case "PATCH", "web":
                meta = _body(request)["metadata"]
                self.deployment["metadata"]["annotations"] = meta["annotations"]
                wire.json(self.deployment)
            case "POST", "events" if self.refuses_events:
                wire.json(status(403, "Forbidden", "cannot create resource events"), 403)
            case "POST", "events":
                self.events.append(_body(request))
                wire.json(self.events[-1], 201)
            case _:
                wire.json(status(405, "MethodNotAllowed", request.path), 405)

    def _shown(self, found: Object | None, wire: Wire) -> None:
        if found is None:
            wire.json(status(404, "NotFound", "not found"), 404)
        else:
            wire.json(found)

    def _list(self, path: str) -> list[Object]:
        if path == METRICS:
            return [_usage(name) for name in self.pods]
        lists: dict[str, list[Object]] = {
            "horizontalpodautoscalers": [autoscaler()],
            "deployments": [self.deployment],
            "replicasets": [self.set],
            "pods": list(self.pods.values()),
            "poddisruptionbudgets": [],
            "version": [],  # asked for the server's time of day
        }
        return lists[path.rpartition("/")[2]]


def _body(request: Request) -> Object:
    read: Object = msgspec.json.decode(request.body)
    return read


def _usage(name: str) -> Object:
    cpu = f"{round(F6.get(name, 0.7) * 1000)}m"
    return {"metadata": {"name": name}, "containers": [{"name": "web", "usage": {"cpu": cpu}}]}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.server.close()


@pytest.fixture
def pipe() -> Iterator[InterruptibleWakePipe]:
    made = InterruptibleWakePipe()
    yield made
    made.close()


class Ears:
    """Hears what is told, and what is warned about."""

    def __init__(self) -> None:
        self.told: list[JournalEntry] = []
        self.warned: list[str] = []

    def said(self, what: str) -> list[str]:
        return [each.because for each in self.told if each.what == what]


@pytest.fixture
def ears() -> Ears:
    return Ears()


def test_plan_changes_nothing(cluster: Cluster) -> None:
    found = plan(plain_access(cluster.port), SETTINGS)
    [assessment] = found.assessments()
    assert assessment.because == "Improvement 34.8% exceeds minimum 10.0%"
    assert {each.method for each in cluster.server.requests} == {"GET"}


def test_run(cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears) -> None:
    result = run(plain_access(cluster.port), SETTINGS, pipe, ears.told.append, ears.warned.append)
    assert (result.exit_code, [each.reason for each in result.results]) == (0, [Reason.ROTATED])
    assert cluster.asked() == [
        "PATCH shop/deployments/web",
        *(f"POST shop/pods/{name}/eviction" for name in "AFBE"),
        "PATCH shop/deployments/web",
    ]
    assert ANNOTATION in cluster.deployment["metadata"]["annotations"]
    told = {(each["involvedObject"]["kind"], each["reason"]) for each in cluster.events}
    assert told == {("Pod", "Rotated"), ("Deployment", "Rebalanced")}
    assert {each["source"]["component"] for each in cluster.events} == {"slackwater-rebalancer"}
    assert ears.warned == []


def test_a_dry_run_only_reads(cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears) -> None:
    settings = msgspec.structs.replace(SETTINGS, dry_run=True)
    result = run(plain_access(cluster.port), settings, pipe, ears.told.append, ears.warned.append)
    assert [each.reason for each in result.results] == [Reason.DRY_RUN]
    assert {each.method for each in cluster.server.requests} == {"GET"}


def test_events_that_are_refused_are_warned_about(
    cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears
) -> None:
    cluster.refuses_events = True
    result = run(plain_access(cluster.port), SETTINGS, pipe, ears.told.append, ears.warned.append)
    assert result.exit_code == 0
    [sentence] = ears.warned
    assert sentence.startswith("events could not be sent: ")


def test_a_push_that_fails_does_not_change_the_exit_code(
    cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears
) -> None:
    settings = msgspec.structs.replace(SETTINGS, push="http://127.0.0.1:1")
    result = run(plain_access(cluster.port), settings, pipe, ears.told.append, ears.warned.append)
    assert result.exit_code == 0
    [sentence] = ears.warned
    assert sentence.startswith("the metrics were not pushed to http://127.0.0.1:1/metrics/job/")


def test_who_is_asked_to_end_first_evicts_nobody(
    cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears
) -> None:
    pipe.request_stop()
    result = run(plain_access(cluster.port), SETTINGS, pipe, ears.told.append, ears.warned.append)
    assert [each.reason for each in result.results] == [Reason.STOPPED]
    assert cluster.asked() == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"usage_source": UsageSource.PROMETHEUS}, Reason.PROMETHEUS_ERROR),
        (
            {"workloads": (
                WorkloadSettings("shop", "web", kafka=KafkaSettings(enabled=True)),
            )},
            Reason.KAFKA_LAG_UNKNOWN,
        ),
    ],
    ids=["usage from Prometheus", "lag from Prometheus"],
)  # fmt: skip
def test_who_is_asked_is_a_setting(
    cluster: Cluster,
    pipe: InterruptibleWakePipe,
    ears: Ears,
    changes: dict[str, Any],
    reason: Reason,
) -> None:
    nobody = PrometheusSettings("http://127.0.0.1:1", timeout=Micros(2_000_000), retries=0)
    settings = msgspec.structs.replace(SETTINGS, prometheus=nobody, **changes)
    result = run(plain_access(cluster.port), settings, pipe, ears.told.append, ears.warned.append)
    [one] = result.results
    assert one.reason is reason
    assert "127.0.0.1:1" in one.because
    assert cluster.asked() == []


@pytest.mark.parametrize("source", UsageSource)
def test_a_server_that_hangs_does_not_keep_it_from_ending(
    cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears, source: UsageSource
) -> None:
    """Prometheus may take 30 s, and so may metrics.k8s.io behind the API server."""
    cluster.hangs_at = METRICS
    silent = ByteServer(lambda _request, wire: wire.hang())
    prometheus = PrometheusSettings(f"http://127.0.0.1:{silent.port}", retries=0)
    settings = msgspec.structs.replace(SETTINGS, prometheus=prometheus, usage_source=source)
    before = signal.getsignal(signal.SIGUSR1)
    pipe.stop_on(signal.SIGUSR1)
    try:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        result = run(
            plain_access(cluster.port), settings, pipe, ears.told.append, ears.warned.append
        )
    finally:
        signal.signal(signal.SIGUSR1, before)
        silent.close()
    assert [(each.reason, each.because) for each in result.results] == [(Reason.STOPPED, ENDING)]
    assert (result.exit_code, cluster.asked()) == (0, [])


def test_a_broker_is_asked_where_one_is_named(
    cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[KafkaSettings, str, float]] = []

    def read_lag(_: object, settings: KafkaSettings, group: str, timeout: float) -> Gap:
        asked.append((settings, group, timeout))
        return Gap("it is down")

    monkeypatch.setattr(kafka_brokers.Brokers, "read_lag", read_lag)
    kafka = KafkaSettings(enabled=True, bootstrap_servers=("127.0.0.1:9092",))
    workload = WorkloadSettings("shop", "web", kafka=kafka)
    settings = msgspec.structs.replace(SETTINGS, workloads=(workload,))
    result = run(plain_access(cluster.port), settings, pipe, ears.told.append, ears.warned.append)
    assert [each.reason for each in result.results] == [Reason.KAFKA_LAG_UNKNOWN]
    assert asked == [(kafka, "web", 30.0)]


# --- the resident one


class Resident:
    """loop() in a thread."""

    def __init__(
        self, cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears, settings: RunSettings
    ) -> None:
        self._pipe = pipe
        self._ears = ears
        access, place = plain_access(cluster.port), ListenAddress("127.0.0.1", 0)
        arguments = (access, lambda: settings, CANDIDATE, place, pipe, ears.told.append)
        self._thread = threading.Thread(target=loop, args=arguments)
        self._thread.start()

    def until(self, what: str, result: str) -> None:
        while not any((each.what, each.result) == (what, result) for each in self._ears.told):
            time.sleep(0.01)

    def get(self, path: str) -> str:
        [said] = self._ears.said("endpoint")
        url = said.removeprefix("listening on ") + path
        with build_opener(ProxyHandler({})).open(url, timeout=300) as answer:
            return str(answer.read().decode())

    def end(self) -> None:
        self._pipe.request_stop()
        self._thread.join()


def test_the_resident_one_leads_acts_shows_and_gives_back(
    cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears
) -> None:
    resident = Resident(cluster, pipe, ears, SETTINGS)
    resident.until("Deployment shop/web", "rotated")
    assert 'rebalancer_rotation_decisions_total{reason="rotated"}' in resident.get("/metrics")
    assert '"leader":"us"' in resident.get("/readyz")
    resident.end()
    assert cluster.lease is not None
    assert cluster.lease["spec"]["holderIdentity"] == ""
    assert cluster.asked()[1:-1] == [f"POST shop/pods/{name}/eviction" for name in "AFBE"]


def test_a_lease_of_a_namespace_that_is_not_there(
    cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears
) -> None:
    cluster.refuses_leases = True
    resident = Resident(cluster, pipe, ears, SETTINGS)
    resident.until("lease", "kubernetes_error")
    [sentence] = ears.said("lease")
    assert sentence.startswith("the Lease cannot be read or held: ")
    assert "namespaces not found" in sentence
    with pytest.raises(HTTPError) as answer:
        resident.get("/readyz")
    assert "namespaces not found" in answer.value.read().decode()
    assert 'rebalancer_api_errors_total{component="kubernetes"} 0' not in resident.get("/metrics")
    resident.end()
    assert ears.said("leader") == []


def test_a_resident_dry_run_only_reads(
    cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears
) -> None:
    resident = Resident(cluster, pipe, ears, msgspec.structs.replace(SETTINGS, dry_run=True))
    resident.until("Deployment shop/web", "dry_run")
    resident.end()
    assert {each.method for each in cluster.server.requests} == {"GET"}
    assert cluster.lease is None


def test_where_another_leads_it_waits(
    cluster: Cluster, pipe: InterruptibleWakePipe, ears: Ears
) -> None:
    cluster.lease = {
        "metadata": {"resourceVersion": "1"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600},
    }
    resident = Resident(cluster, pipe, ears, SETTINGS)
    while "another leads" not in ears.said("leader"):
        time.sleep(0.01)
    resident.end()
    assert cluster.asked() == []
    assert cluster.lease["spec"]["holderIdentity"] == "another"
