"""Addresses, headers and files, good ones and bad ones; no network."""

import base64
from pathlib import Path

import pytest

from slackwater import __version__
from slackwater.http.endpoint import Identity, Server
from slackwater.http.prometheus_api import PrometheusError, read_address
from slackwater.http.prometheus_client import (
    RequestHeaders,
    certificate_of,
    headers_of,
)
from slackwater.settings.prometheus import PrometheusSettings

ALWAYS = {
    "Host": "localhost:9090",
    "User-Agent": f"slackwater/{__version__}",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/x-www-form-urlencoded",
}


def shown(settings: PrometheusSettings) -> RequestHeaders:
    return headers_of(settings, read_address(settings.endpoint))


def refusal(settings: PrometheusSettings) -> str:
    with pytest.raises(PrometheusError) as caught:
        shown(settings)
    return str(caught.value)


def holding(folder: Path, content: bytes) -> str:
    path = folder / "secret"
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("endpoint", "url", "server"),
    [
        (
            "http://localhost:9090",
            "http://localhost:9090/api/v1/query",
            Server("localhost", 9090, "http"),
        ),
        (
            "https://metrics.example.com/",
            "https://metrics.example.com/api/v1/query",
            Server("metrics.example.com", 443, "https"),
        ),
        (
            "http://vmselect:8481/select/0/prometheus/",
            "http://vmselect:8481/select/0/prometheus/api/v1/query",
            Server("vmselect", 8481, "http", "/select/0/prometheus"),
        ),
        (
            "http://prometheus/api/v1/query",  # the whole address is a usual mistake
            "http://prometheus/api/v1/query",
            Server("prometheus", 80, "http"),
        ),
        ("http://[::1]:9090", "http://[::1]:9090/api/v1/query", Server("::1", 9090, "http")),
    ],
)
def test_addresses(endpoint: str, url: str, server: Server) -> None:
    found = read_address(endpoint)
    assert found == server
    assert f"{found.url}/api/v1/query" == url


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "localhost:9090",
        "://invalid-url",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://[::1",
        "http://host/a b",
        "http://host/\n",
        "http://hóst",
        "http://host?extra_label=a",
        "http://host/#part",
    ],
)
def test_what_is_no_address(endpoint: str) -> None:
    with pytest.raises(PrometheusError) as caught:
        read_address(endpoint)
    told = str(caught.value)
    assert told.startswith("the endpoint of Prometheus is '")
    assert "but must be an address such as http://localhost:9090" in told
    assert "\n" not in told


def test_a_user_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(PrometheusError) as caught:
        read_address("http://me:s3cr3t@host:9090/x?token=s3cr3t")
    told = str(caught.value)
    assert told.startswith("the endpoint of Prometheus is 'http://host:9090/x', but must be")
    assert "s3cr3t" not in told


def test_nothing_but_the_query_by_default() -> None:
    assert shown(PrometheusSettings()) == RequestHeaders(ALWAYS, ())


def test_tenant_and_headers() -> None:
    settings = PrometheusSettings(
        tenant="team-a", headers=(("X-Query", "cpu of pods"), ("accept", "*/*"))
    )
    found = shown(settings)
    kept = {name: value for name, value in ALWAYS.items() if name != "Accept"}
    assert found.headers == {
        **kept,
        "X-Scope-OrgID": "team-a",
        "X-Query": "cpu of pods",
        "accept": "*/*",
    }
    assert found.secrets == ("cpu of pods", "pods")


def test_a_token_is_read_each_time(tmp_path: Path) -> None:
    """A service account's token is rotated in place."""
    settings = PrometheusSettings(token_file=holding(tmp_path, b"first-token\n"))
    found = shown(settings)
    assert found.headers == {**ALWAYS, "Authorization": "Bearer first-token"}
    assert found.secrets == ("first-token",)
    holding(tmp_path, b"second-token")
    assert shown(settings).headers["Authorization"] == "Bearer second-token"


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"pass word\n", "pass word"),
        ("Größe".encode(), "Größe"),
        (b" with spaces \r\n", " with spaces "),
    ],
)
def test_basic_authentication(tmp_path: Path, content: bytes, password: str) -> None:
    settings = PrometheusSettings(username="me", password_file=holding(tmp_path, content))
    pair = base64.b64encode(f"me:{password}".encode()).decode()
    found = shown(settings)
    assert found.headers["Authorization"] == f"Basic {pair}"
    assert set(found.secrets) == {password, pair}


def test_a_user_without_a_password() -> None:
    found = shown(PrometheusSettings(username="me"))
    assert found.headers["Authorization"] == f"Basic {base64.b64encode(b'me:').decode()}"


def test_a_header_of_ones_own_is_a_secret_too() -> None:
    found = shown(PrometheusSettings(headers=(("authorization", "Bearer mine-alone"),)))
    assert found.headers["authorization"] == "Bearer mine-alone"
    assert found.secrets == ("Bearer mine-alone", "mine-alone")


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"\xff\xfe", b"nul\x00", b"a\x1bb"])
def test_bad_secrets(tmp_path: Path, content: bytes) -> None:
    path = holding(tmp_path, content)
    expected = f"{path} must hold one line of text, and nothing else"
    assert refusal(PrometheusSettings(token_file=path)) == expected
    assert refusal(PrometheusSettings(username="me", password_file=path)) == expected


def test_a_token_is_ascii(tmp_path: Path) -> None:
    path = holding(tmp_path, "tökén".encode())
    told = refusal(PrometheusSettings(token_file=path))
    assert told == f"the token in {path} must be one line of ASCII"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            PrometheusSettings(token_file="/a", username="me"),  # noqa: S106
            "a token's file and a user name exclude each other",
        ),
        (
            PrometheusSettings(password_file="/a"),  # noqa: S106
            "there is a password's file, but no user name",
        ),
        (
            PrometheusSettings(username="a:b"),
            "the user name has a colon, which basic authentication forbids",
        ),
        (
            PrometheusSettings(username="me", headers=(("AUTHORIZATION", "Bearer x"),)),
            "the header AUTHORIZATION and a user name exclude each other",
        ),
        (PrometheusSettings(headers=(("bad name", "x"),)), "'bad name' is not a header name"),
        (PrometheusSettings(headers=(("", "x"),)), "'' is not a header name"),
        (
            PrometheusSettings(headers=(("X-A", "s3cr3t\r\nX-B: 1"),)),
            "the value of the header X-A must be one line of ASCII",
        ),
        (PrometheusSettings(tenant="a\nb"), "the tenant must be one line of ASCII"),
        (
            PrometheusSettings(token_file="/does/not/exist"),  # noqa: S106
            "/does/not/exist is not readable: No such file or directory",
        ),
        (
            PrometheusSettings(username="me", password_file="/"),  # noqa: S106
            "/ is not readable: not a regular file",
        ),
    ],
)
def test_what_does_not_go_together(settings: PrometheusSettings, expected: str) -> None:
    assert refusal(settings) == expected


def test_a_token_and_a_header_exclude_each_other(tmp_path: Path) -> None:
    settings = PrometheusSettings(
        token_file=holding(tmp_path, b"t0ken"), headers=(("Authorization", "Bearer x"),)
    )
    assert refusal(settings) == "the header Authorization and a token's file exclude each other"


def test_certificates(tmp_path: Path) -> None:
    (tmp_path / "cert").write_bytes(b"certificate")
    (tmp_path / "key").write_bytes(b"key")
    one = PrometheusSettings(certificate_file=f"{tmp_path}/cert", key_file=f"{tmp_path}/key")
    assert certificate_of(one) == Identity(certificate=b"certificate", key=b"key")
    both = PrometheusSettings(certificate_file=f"{tmp_path}/cert")
    assert certificate_of(both) == Identity(certificate=b"certificate")
    assert certificate_of(PrometheusSettings()) == Identity()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (PrometheusSettings(key_file="/a"), "there is a key's file, but no certificate's"),
        (
            PrometheusSettings(certificate_file="/no/such"),
            "/no/such is not readable: No such file or directory",
        ),
    ],
)
def test_bad_certificates(settings: PrometheusSettings, expected: str) -> None:
    with pytest.raises(PrometheusError) as caught:
        certificate_of(settings)
    assert str(caught.value) == expected
