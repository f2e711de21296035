"""Kubeconfigs as people have them, and the sentences about those that cannot be used."""

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.endpoint import Identity, Proxy, Server, Trust
from slackwater.kube.access import Access
from slackwater.kube.credentials.exec_plugin import ExecCredentials
from slackwater.kube.credentials.kubeconfig import from_files
from slackwater.model.gap import Gap

Document = dict[str, Any]


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def document(cluster: Document | None = None, user: Document | None = None) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://1.2.3.4:6443", **(cluster or {})}}
        ],
        "users": [{"name": "u", "user": user or {}}],
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def put(content: object, name: str = "config") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return put


def access(*paths: str, context: str = "", environ: dict[str, str] | None = None) -> Access:
    found = from_files(paths, context, environ or {})
    assert not isinstance(found, Gap), found.reason
    return found


def identity(path: str) -> Identity:
    return access(path).credentials.identity()


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://1.2.3.4:6443", Server("1.2.3.4", 6443)),
        ("https://api.example.com", Server("api.example.com", 443)),
        ("http://localhost:8080", Server("localhost", 8080, "http")),
        ("http://localhost", Server("localhost", 80, "http")),
        ("https://[fd00::1]:6443", Server("fd00::1", 6443)),
        ("https://rancher/k8s/clusters/c-1/", Server("rancher", 443, "https", "/k8s/clusters/c-1")),
    ],
)
def test_a_server(url: str, server: Server, write: Callable[..., str]) -> None:
    found = access(write(document({"server": url})))
    assert found.server == server
    assert found.namespace == "default"


def test_a_context_has_a_namespace(write: Callable[..., str]) -> None:
    config = document()
    config["contexts"][0]["context"]["namespace"] = "shop"
    path = write(config)
    found = access(path)
    assert found.namespace == "shop"
    assert found.origin == f"{path}, context here"


def test_a_context_can_be_asked_for(write: Callable[..., str]) -> None:
    config = document()
    config["contexts"].append({"name": "there", "context": {"cluster": "d"}})
    config["clusters"].append({"name": "d", "cluster": {"server": "https://d:1"}})
    found = access(write(config), context="there")
    assert found.server.host == "d"
    assert found.credentials.identity() == Identity()


def test_files_are_merged_and_the_first_counts(write: Callable[..., str], tmp_path: Path) -> None:
    first = document()
    del first["current-context"], first["users"]
    second = document({"server": "https://never:1"}, {"token": "from-the-second"})
    second["contexts"][0]["context"]["cluster"] = "never"
    paths = [
        write("", "empty"),
        write(first, "one"),
        str(tmp_path / "missing"),
        write(second, "two"),
    ]
    found = access(*paths)
    assert found.server.host == "1.2.3.4"
    assert found.credentials.identity() == Identity("Bearer from-the-second")


@pytest.mark.parametrize(
    ("user", "wanted"),
    [
        ({}, Identity()),
        ({"token": " abc\n"}, Identity("Bearer abc")),
        ({"username": "me", "password": "pass"}, Identity("Basic bWU6cGFzcw==")),
        ({"token": "abc", "username": "me"}, Identity("Bearer abc")),
        (
            {"client-certificate-data": packed("CERT"), "client-key-data": packed("KEY")},
            Identity("", b"CERT", b"KEY"),
        ),
        (
            {"client-certificate-data": packed("C"), "client-key-data": packed("K"), "token": "t"},
            Identity("Bearer t", b"C", b"K"),
        ),
        (
            {"client-certificate": "my.crt", "client-key": "my.key"},
            Identity("", b"FILE", b"FILE KEY"),
        ),
        (
            {
                "client-certificate": "none",
                "client-certificate-data": packed("C"),
                "client-key": "none",
                "client-key-data": packed("K"),
            },
            Identity("", b"C", b"K"),
        ),
        ({"tokenFile": "token"}, Identity("Bearer in-file")),
        ({"tokenFile": "token", "token": "old"}, Identity("Bearer in-file")),
    ],
)
def test_a_user(user: Document, wanted: Identity, write: Callable[..., str]) -> None:
    """Paths are relative to the file that they stand in."""
    write("FILE", "deep/my.crt")
    write("FILE KEY", "deep/my.key")
    write("in-file\n", "deep/token")
    assert identity(write(document(user=user), "deep/config")) == wanted


@pytest.mark.parametrize(
    ("cluster", "trust"),
    [
        ({}, Trust()),
        ({"certificate-authority-data": packed("CA")}, Trust(authority_data=b"CA")),
        ({"tls-server-name": "api"}, Trust(server_name="api")),
        ({"insecure-skip-tls-verify": True}, Trust(unchecked=True)),
        ({"insecure-skip-tls-verify": False}, Trust()),
    ],
)
def test_whom_to_believe(cluster: Document, trust: Trust, write: Callable[..., str]) -> None:
    assert access(write(document(cluster))).trust == trust


def test_an_authority_in_a_file_stays_a_file(write: Callable[..., str], tmp_path: Path) -> None:
    """So that its rotation is seen."""
    write("CA", "ca.crt")
    found = access(write(document({"certificate-authority": "ca.crt"})))
    assert found.trust == Trust(authority_file=str(tmp_path / "ca.crt"))


@pytest.mark.parametrize(
    ("cluster", "environ", "proxy"),
    [
        ({"proxy-url": "http://p:3128"}, {}, Proxy("p", 3128)),
        ({"proxy-url": "http://p:3128"}, {"HTTPS_PROXY": "http://q:1"}, Proxy("p", 3128)),
        ({}, {"HTTPS_PROXY": "http://q:1"}, Proxy("q", 1)),
        ({}, {"HTTPS_PROXY": "http://q:1", "NO_PROXY": "1.2.3.0/24"}, None),
    ],
)
def test_a_proxy(
    cluster: Document, environ: dict[str, str], proxy: Proxy | None, write: Callable[..., str]
) -> None:
    assert access(write(document(cluster)), environ=environ).proxy == proxy


def test_as_somebody_else(write: Callable[..., str]) -> None:
    user = {
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["readers", "writers"],
        "as-user-extra": {"acme.com/role": ["one"]},
    }
    assert access(write(document(user=user))).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "readers"),
        ("Impersonate-Group", "writers"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-acme.com%2Frole", "one"),
    )


EXEC: Document = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": "aws",
    "args": ["eks", "get-token"],
    "env": [{"name": "AWS_PROFILE", "value": "x"}],
    "interactiveMode": "Never",
    "installHint": "get it from the shop",
}


def test_a_plugin(write: Callable[..., str]) -> None:
    credentials = access(write(document(user={"exec": EXEC}))).credentials
    assert isinstance(credentials, ExecCredentials)
    plugin = credentials._plugin
    assert (plugin.command, plugin.args) == ("aws", ("eks", "get-token"))
    assert plugin.env == (("AWS_PROFILE", "x"),)
    assert plugin.cluster is None


def test_a_plugin_beside_the_file(write: Callable[..., str], tmp_path: Path) -> None:
    credentials = access(
        write(document(user={"exec": {**EXEC, "command": "./bin/login"}}), "deep/config")
    ).credentials
    assert isinstance(credentials, ExecCredentials)
    assert os.path.normpath(credentials._plugin.command) == str(tmp_path / "deep/bin/login")


def test_a_plugin_may_ask_for_the_cluster(write: Callable[..., str]) -> None:
    cluster = {
        "certificate-authority-data": packed("CA"),
        "tls-server-name": "api",
        "extensions": [
            {"name": "other", "extension": {"a": 1}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
        ],
    }
    user = {"exec": {**EXEC, "provideClusterInfo": True}}
    credentials = access(write(document(cluster, user))).credentials
    assert isinstance(credentials, ExecCredentials)
    assert credentials._plugin.cluster == {
        "server": "https://1.2.3.4:6443",
        "tls-server-name": "api",
        "certificate-authority-data": packed("CA"),
        "config": {"audience": "x"},
    }


def changed(**fields: object) -> Document:
    return {**document(), **fields}


def _typed(*rows: tuple[Document, str]) -> tuple[tuple[Document, str], ...]:
    return rows


BAD: list[tuple[object, str]] = [
    ("a: [\n", "config, line 2 is not YAML: did not find expected node"),
    ("a: b: c", "config, line 1 is not YAML: mapping values are not allowed"),
    ("\x00", "config is not YAML: "),
    ("- a\n- b", "config is a list, but must be a kubeconfig, a mapping"),
    ("a-secret-token", "config is not a mapping, but must be a kubeconfig, a mapping"),
    ("1234567", "config is not a mapping, but must be a kubeconfig, a mapping"),
    ("", "current-context is missing, but must be one of its contexts (it has none)"),
    (changed(**{"current-context": 7}), "current-context is 7, but must be a text"),
    (
        changed(**{"current-context": "gone"}),
        "current-context is 'gone', but must be one of its contexts: 'here'",
    ),
    (changed(contexts={"a": 1}), "contexts is a mapping, but must be a list"),
    (changed(contexts=["here"]), "contexts[0] is 'here', but must be a mapping"),
    (
        changed(contexts=[{"name": "here", "context": {"user": "u"}}]),
        "contexts[0].context.cluster is missing, but must be one of its clusters: 'c'",
    ),
    (
        changed(contexts=[{"name": "here", "context": {"cluster": "x"}}]),
        "contexts[0].context.cluster is 'x', but must be one of its clusters: 'c'",
    ),
    (
        changed(contexts=[{"name": "here", "context": {"cluster": "c", "user": "x"}}]),
        "contexts[0].context.user is 'x', but must be one of its users: 'u'",
    ),
    (changed(users=[{"name": "u", "user": "me"}]), "users[0].user is 'me', but must be a mapping"),
    *(
        (document({"server": bad}), f"clusters[0].cluster.server is {said}, but must be a URL")
        for bad, said in [
            ("", "''"),
            ("1.2.3.4:6443", "'1.2.3.4:6443'"),
            ("ftp://x", "'ftp://x'"),
            ("https://:1", "'https://:1'"),
            ("https://x:99999", "'https://x:99999'"),
            ("https://x?y=1", "'https://x?y=1'"),
            ("https://[::1", "'https://[::1'"),
        ]
    ),
    (document({"server": 5}), "clusters[0].cluster.server is 5, but must be a URL"),
    (
        document({"certificate-authority": "no.crt"}),
        "cluster.certificate-authority is 'no.crt', but must be a file that can be read (No such",
    ),
    (
        document({"certificate-authority": "\0"}),
        "cluster.certificate-authority is '\\x00', but must be a file that can be read (embedded",
    ),
    (
        document({"certificate-authority-data": "%%%"}),
        "certificate-authority-data is '%%%', but must be base64",
    ),
    (
        document({"insecure-skip-tls-verify": "yes"}),
        "insecure-skip-tls-verify is 'yes', but must be true or false",
    ),
    (
        document({"insecure-skip-tls-verify": True, "certificate-authority-data": packed("CA")}),
        "insecure-skip-tls-verify is true, but must be false where there is a certificate-auth",
    ),
    (
        document({"proxy-url": "socks5://p:1"}),
        "clusters[0].cluster.proxy-url is 'socks5://p:1', but must be an HTTP proxy such as",
    ),
    (
        document(user={"client-certificate-data": packed("C")}),
        "client-key is missing, but must be there: a certificate and its key go together",
    ),
    (document(user={"client-key-data": packed("C")}), "client-certificate is missing, but must be"),
    *(
        (document(user={key: value}), f"users[0].user.{key} is a {kind} that is not shown, but")
        for key, value, kind in [
            ("token", "hunter 2", "text"),
            ("token", ["hunter2"], "value"),
            ("token", 20022002, "value"),
            ("password", ["hunter2"], "value"),
            ("client-key-data", "hunter2", "text"),
        ]
    ),
    (
        document(user={"auth-provider": {"name": "gcp"}}),
        "users[0].user.auth-provider is a mapping, but must be replaced by an exec plugin",
    ),
    (document(user={"as-groups": ["g"]}), "users[0].user.as is missing, but must be there where"),
    (document(user={"as": "a\nb"}), "user.as is 'a\\nb', but must be printable ASCII"),
    (document(user={"exec": "aws"}), "users[0].user.exec is 'aws', but must be a mapping"),
    *(
        (document(user={"exec": EXEC | fields}), f"users[0].user.exec.{sentence}")
        for fields, sentence in _typed(
            (
                {"apiVersion": "client.authentication.k8s.io/v1alpha1"},
                "apiVersion is 'client.authentication.k8s.io/v1alpha1', but must be client.auth",
            ),
            ({"command": ""}, "command is '', but must be the name or the path of a program"),
            ({"args": "x"}, "args is 'x', but must be a list of texts"),
            ({"args": [1]}, "args[0] is 1, but must be a text"),
            ({"env": [{"value": "x"}]}, "env[0].name is missing, but must be a name"),
            (
                {"interactiveMode": ""},
                "interactiveMode is '', but must be Never, IfAvailable or Always",
            ),
            ({"interactiveMode": "Maybe"}, "interactiveMode is 'Maybe', but must be Never"),
            ({"provideClusterInfo": 1}, "provideClusterInfo is 1, but must be true or false"),
        )
    ),
]


@pytest.mark.parametrize(("content", "sentence"), BAD)
def test_a_bad_one_gets_one_sentence(
    content: object, sentence: str, write: Callable[..., str]
) -> None:
    path = write(content)
    found = from_files([path], "", {})
    assert isinstance(found, Gap)
    assert sentence in found.reason
    assert path in found.reason
    assert "\n" not in found.reason
    assert not any(secret in found.reason for secret in ("hunter", "2002"))
    assert len(found.reason) < 400


def test_an_asked_context_that_is_not_there(write: Callable[..., str]) -> None:
    config = document()
    config["contexts"] = [
        {"name": f"c{number}", "context": {"cluster": "c"}} for number in range(8)
    ]
    found = from_files([write(config)], "gone", {})
    assert found == Gap(
        "--context is 'gone', but must be one of its contexts: 'c0', 'c1', 'c2', 'c3', 'c4' "
        "and 3 more"
    )


def test_beta_plugins_need_no_mode(write: Callable[..., str]) -> None:
    beta = {**EXEC, "apiVersion": "client.authentication.k8s.io/v1beta1"}
    del beta["interactiveMode"]
    credentials = access(write(document(user={"exec": beta}))).credentials
    assert isinstance(credentials, ExecCredentials)
    assert credentials._plugin.interactive_mode == "IfAvailable"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    assert from_files([path], "", {}) == Gap(f"{path} is not there")
    found = from_files([str(tmp_path)], "", {})
    assert found == Gap(f"{tmp_path} cannot be read: Is a directory")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["server", "certificate-authority-data", "insecure-skip-tls-verify", "proxy-url", "token",
     "exec", "as", "as-groups", "as-user-extra", "username", "extensions"]
)  # fmt: skip


@given(cluster=st.dictionaries(KEYS, PLAIN), user=st.dictionaries(KEYS, PLAIN))
def test_whatever_stands_there_is_access_or_one_sentence(
    cluster: Document, user: Document, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "config"
    path.write_text(yaml.safe_dump(document(cluster, user)))
    found = from_files([str(path)], "", {})
    assert isinstance(found, Access) or "\n" not in found.reason
