"""A real Prometheus as a server: its paths, its limits, its end, and who is let in."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.http.prometheus_client import PrometheusClient, PrometheusError
from slackwater.model.units import Micros
from slackwater.rebalancer.observed import Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.prometheus_usage import read_usage
from slackwater.rebalancer.sources.promql import usage_query
from slackwater.settings.prometheus import MetricLabels, PrometheusSettings
from tests.cluster.prometheus_bed import (
    PROGRAM,
    PrometheusBed,
    gauge,
    prometheus_with,
    usage,
)
from tests.unit.kube.certificates import Papers

SECOND = 1_000_000
WINDOW = Micros(300 * SECOND)
#: bcrypt of p4ssw0rd, at the lowest cost.
HASH = "$2b$04$PfgJA4N4l9ZyUQpuuYXNEel6ECyK.G6/BmbWOC8lbTlWQip4lGigS"


@pytest.fixture(scope="module")
def now() -> float:
    return time.time()


def test_a_path_in_front(tmp_path: Path, now: float) -> None:
    """As VictoriaMetrics' cluster has it."""
    some = [gauge("one_number", {}, 5.0, now=now)]
    with prometheus_with(tmp_path, some, prefix="/select/0/prometheus") as bed:
        client = PrometheusClient(PrometheusSettings(endpoint=bed.endpoint + "/"))
        assert [each.value for each in client.query("one_number")] == [5.0]


def test_a_server_that_thinks_it_is_too_much(tmp_path: Path, now: float) -> None:
    some = [usage("shop", "web-a", 1.2, now=now)]
    with prometheus_with(tmp_path, some, "--query.max-samples=5") as bed:
        client = PrometheusClient(PrometheusSettings(endpoint=bed.endpoint))
        read = read_usage(client, "shop", WINDOW, MetricLabels(), now)
    assert isinstance(read, Unavailable)
    assert read.reason is Reason.PROMETHEUS_ERROR
    assert "it answered 422: execution: query processing would load too many samples" in (
        read.because
    )


def test_a_server_that_stops_and_dies(tmp_path: Path, now: float) -> None:
    with prometheus_with(tmp_path, [gauge("one_number", {}, 5.0, now=now)]) as bed:
        settings = PrometheusSettings(endpoint=bed.endpoint, timeout=Micros(SECOND))
        client = PrometheusClient(settings)
        assert len(client.query("one_number")) == 1
        bed.processes.send(PROGRAM, signal.SIGSTOP)
        with pytest.raises(PrometheusError, match="no whole answer within 1 s"):
            client.query("one_number")
        bed.processes.send(PROGRAM, signal.SIGCONT)
        assert len(client.query("one_number")) == 1
        bed.processes.kill(PROGRAM)
        with pytest.raises(PrometheusError, match="Connection refused"):
            client.query("one_number")


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, now: float
) -> Iterator[tuple[PrometheusBed, Path]]:
    """Behind TLS, a client certificate and a password; and the folder with all that opens it."""
    folder = tmp_path_factory.mktemp("guarded")
    papers = Papers("127.0.0.1")
    server = papers.authority.issue_cert("127.0.0.1")
    (folder / "ca.pem").write_bytes(papers.authority_data)
    (folder / "server.pem").write_bytes(server.cert_chain_pems[0].bytes())
    (folder / "server.key").write_bytes(server.private_key_pem.bytes())
    (folder / "client.pem").write_bytes(papers.client_certificate)
    (folder / "client.key").write_bytes(papers.client_key)
    (folder / "password").write_text("p4ssw0rd\n")
    (folder / "wrong").write_text("another\n")
    (folder / "web.yml").write_text(
        "tls_server_config:\n"
        f"  cert_file: {folder}/server.pem\n  key_file: {folder}/server.key\n"
        f"  client_ca_file: {folder}/ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
        f"basic_auth_users:\n  me: {HASH}\n"
    )
    some = [gauge("one_number", {}, 5.0, now=now)]
    with prometheus_with(folder, some, f"--web.config.file={folder}/web.yml") as made:
        yield made, folder


def guarded_client(bed: PrometheusBed, folder: Path, **changes: str) -> PrometheusClient:
    given = {
        "endpoint": bed.endpoint,
        "ca_file": f"{folder}/ca.pem",
        "certificate_file": f"{folder}/client.pem",
        "key_file": f"{folder}/client.key",
        "username": "me",
        "password_file": f"{folder}/password",
    }
    return PrometheusClient(PrometheusSettings(**(given | changes)))  # type: ignore[arg-type]


def test_tls_certificate_and_password(guarded: tuple[PrometheusBed, Path]) -> None:
    assert len(guarded_client(*guarded).query("one_number")) == 1


@pytest.mark.parametrize(
    ("change", "value", "expected"),
    [
        ("password_file", "wrong", "it answered 401, so the credentials are missing or wrong"),
        ("ca_file", "", "its certificate is not believed: "),
    ],
)
def test_who_is_not_let_in(
    guarded: tuple[PrometheusBed, Path], change: str, value: str, expected: str
) -> None:
    bed, folder = guarded
    with pytest.raises(PrometheusError) as caught:
        guarded_client(bed, folder, **{change: f"{folder}/{value}" if value else ""}).query("up")
    assert expected in str(caught.value)
    assert "another" not in str(caught.value)


def test_without_the_certificate(guarded: tuple[PrometheusBed, Path]) -> None:
    with pytest.raises(PrometheusError) as caught:
        guarded_client(*guarded, certificate_file="", key_file="").query("up")
    # Our words may meet a closed door before the door's sign is read.
    assert any(sign in str(caught.value) for sign in ("TLS failed: ", "reset", "Broken pipe"))


def test_plain_words_to_a_tls_server(guarded: tuple[PrometheusBed, Path]) -> None:
    bed, folder = guarded
    plain = bed.endpoint.replace("https", "http")
    with pytest.raises(PrometheusError) as caught:
        guarded_client(bed, folder, endpoint=plain).query("up")
    assert "it answered 400: 'Client sent an HTTP request to an HTTPS server.'" in str(caught.value)


@pytest.mark.parametrize("pods", [2_000])
def test_many_pods_in_one_answer(tmp_path: Path, pods: int, now: float) -> None:
    labels = MetricLabels()
    some = [
        usage("shop", f"web-{number}", 0.5, now=now, age=600, ended=0) for number in range(pods)
    ]
    with prometheus_with(tmp_path, some) as bed:
        client = PrometheusClient(PrometheusSettings(endpoint=bed.endpoint))
        assert len(client.query(usage_query("shop", WINDOW, labels), now)) == pods
