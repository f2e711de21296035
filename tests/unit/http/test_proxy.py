"""The environment's proxies by Go's rules: we go where kubectl goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.endpoint import Proxy, Server, parse_proxy, proxy_for
from slackwater.model.gap import Gap

P = Proxy("p", 3128)


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("http://p:3128", P),
        ("p:3128", P),
        ("http://p", Proxy("p", 80)),
        ("http://p:3128/", P),
        ("http://[::1]:3128", Proxy("::1", 3128)),
        ("http://me:s3cr%20et@p:3128", Proxy("p", 3128, "Basic bWU6czNjciBldA==")),
        ("http://me@p:3128", Proxy("p", 3128, "Basic bWU6")),
    ],
)
def test_a_proxys_url(text: str, proxy: Proxy) -> None:
    assert parse_proxy(text, "proxy-url") == proxy


@pytest.mark.parametrize(
    "text", ["https://p:1", "socks5://p:1", "http://", "http://p:x", "http://[p"]
)
def test_what_is_no_http_proxy_is_told(text: str) -> None:
    found = parse_proxy(text, "proxy-url")
    assert isinstance(found, Gap)
    assert found.reason.startswith(f"proxy-url is '{text}', but must be an HTTP proxy")


def test_a_proxys_user_whom_no_header_can_name() -> None:
    found = parse_proxy("http://m\ud800e:x@p:3128", "proxy-url")
    assert isinstance(found, Gap)
    assert found.reason.startswith("proxy-url is 'http://p:3128', but must be")


def test_a_proxys_password_is_not_shown() -> None:
    found = parse_proxy("socks5://me:hunter2@p:1", "proxy-url")
    assert isinstance(found, Gap)
    assert "hunter2" not in found.reason


@pytest.mark.parametrize(
    ("environ", "scheme", "proxy"),
    [
        ({}, "https", None),
        ({"HTTPS_PROXY": ""}, "https", None),
        ({"HTTPS_PROXY": "p:3128"}, "https", P),
        ({"https_proxy": "p:3128"}, "https", P),
        ({"HTTPS_PROXY": "p:3128", "https_proxy": "q:1"}, "https", P),
        ({"HTTP_PROXY": "p:3128"}, "https", None),
        ({"HTTP_PROXY": "p:3128"}, "http", P),
        ({"HTTPS_PROXY": "p:3128"}, "http", None),
        ({"ALL_PROXY": "p:3128"}, "https", None),
    ],
)
def test_which_variable_counts(environ: dict[str, str], scheme: str, proxy: Proxy | None) -> None:
    assert proxy_for(Server("api.example.com", 6443, scheme), environ) == proxy


@pytest.mark.parametrize(
    ("host", "rules", "spared"),
    [
        ("api.example.com", "", False),
        ("api.example.com", "*", True),
        ("api.example.com", "other, *", True),
        ("api.example.com", "example.com", True),
        ("example.com", "example.com", True),
        ("badexample.com", "example.com", False),
        ("api.example.com", ".example.com", True),
        ("example.com", ".example.com", False),
        ("api.example.com", "*.example.com", True),
        ("API.Example.COM", "api.example.com", True),
        ("api.example.com.", "example.com", True),
        ("api.example.com", "example.com:6443", True),
        ("api.example.com", "example.com:443", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1:6443", True),
        ("10.0.0.1", "10.0.0.1:80", False),
        ("10.0.0.1", "10.0.0.0/8", True),
        ("10.0.0.1", "10.0.0.0/30", True),
        ("10.0.0.9", "10.0.0.0/30", False),
        ("10.0.0.1", "10.0.0.0/99", False),
        ("10.0.0.1", "0.0.1", False),
        ("fd00::1", "fd00::/8", True),
        ("fd00::1", "[fd00::1]", True),
        ("fd00::1", "fd00::1", True),
        ("fd00::1", "[fd00::1]:6443", True),
        ("fd00::1", "[fd00::1]:1", False),
        ("api.example.com", "10.0.0.0/8", False),
        ("localhost", "", True),
        ("127.0.0.1", "", True),
        ("::1", "", True),
    ],
)
def test_who_is_spared(host: str, rules: str, spared: bool) -> None:
    found = proxy_for(Server(host, 6443), {"HTTPS_PROXY": "p:3128", "NO_PROXY": rules})
    assert found == (None if spared else P)


def test_lower_case_counts_too() -> None:
    environ = {"https_proxy": "p:3128", "no_proxy": "example.com"}
    assert proxy_for(Server("example.com", 6443), environ) is None


@given(rules=st.text(max_size=40), text=st.text(min_size=1, max_size=40))
def test_whatever_stands_there_is_a_proxy_none_or_one_sentence(rules: str, text: str) -> None:
    found = proxy_for(Server("a.b", 1), {"HTTPS_PROXY": text, "NO_PROXY": rules})
    assert found is None or isinstance(found, Proxy | Gap)
