"""Where access is looked for, in which order."""

from pathlib import Path

import pytest

from slackwater.http.endpoint import Server
from slackwater.kube.access import Access
from slackwater.kube.credentials import discovery as in_cluster_module
from slackwater.kube.credentials.discovery import find_access, in_cluster
from slackwater.model.gap import Gap

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def config(path: Path, host: str, *contexts: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    known = "".join(
        f"- {{name: {name}, context: {{cluster: c}}}}\n" for name in ("main", *contexts)
    )
    path.write_text(
        f"current-context: main\ncontexts:\n{known}"
        f"clusters: [{{name: c, cluster: {{server: 'https://{host}:6443'}}}}]\n"
    )
    return str(path)


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text("the-token\n")
    (folder / "ca.crt").write_text("CA")
    (folder / "namespace").write_text("slackwater-system")
    monkeypatch.setattr(in_cluster_module.in_cluster, "__defaults__", (str(folder),))
    return folder


def host_of(found: Access | Gap) -> str:
    assert isinstance(found, Access), found.reason
    return found.server.host


def test_the_order(tmp_path: Path, account: Path) -> None:
    said = config(tmp_path / "said", "said")
    listed = config(tmp_path / "listed", "listed", "other")
    config(tmp_path / "home/.kube/config", "home", "other")
    environ = {"HOME": str(tmp_path / "home")}
    everything = {**environ, **POD, "KUBECONFIG": f"{tmp_path}/none:{listed}"}
    assert host_of(find_access(everything, said)) == "said"
    assert host_of(find_access(everything)) == "listed"
    assert host_of(find_access({**environ, **POD})) == "10.0.0.1"
    assert host_of(find_access(environ)) == "home"
    # A context is a word of kubeconfigs: asking for one is not asking for the pod's account.
    assert host_of(find_access({**environ, **POD}, context="other")) == "home"
    assert host_of(find_access({**environ, **POD, "KUBECONFIG": ":"})) == "10.0.0.1"


def test_a_named_file_is_not_replaced_by_another(tmp_path: Path, account: Path) -> None:
    config(tmp_path / ".kube/config", "home")
    found = find_access({"HOME": str(tmp_path), **POD}, str(tmp_path / "none"))
    assert found == Gap(f"{tmp_path}/none is not there")


def test_nothing_at_all_is_told_with_what_to_do(tmp_path: Path) -> None:
    found = find_access({"HOME": str(tmp_path)})
    assert isinstance(found, Gap)
    assert str(tmp_path / ".kube/config") in found.reason
    assert "--kubeconfig" in found.reason


def test_a_pod(account: Path) -> None:
    found = find_access(POD)
    assert isinstance(found, Access)
    assert found.server == Server("10.0.0.1", 443)
    assert found.trust.authority_file == str(account / "ca.crt")
    assert found.credentials.identity().authorization == "Bearer the-token"
    assert found.namespace == "slackwater-system"
    assert found.origin == "the pod's service account"
    assert found.proxy is None


@pytest.mark.parametrize(
    ("host", "text"),
    [("fd00::1", "https://[fd00::1]:443"), ("[fd00::1]", "https://[fd00::1]:443"),
     ("kubernetes.default", "https://kubernetes.default:443")],
)  # fmt: skip
def test_a_pods_server_may_be_ipv6(host: str, text: str, account: Path) -> None:
    found = in_cluster({**POD, "KUBERNETES_SERVICE_HOST": host}, str(account))
    assert isinstance(found, Access)
    assert str(found.server) == text


@pytest.mark.parametrize("port", ["", "x", "0", "65536", "-1", "443 ", "9" * 5000, "٤٤٣"])
def test_a_bad_port_is_told(port: str, account: Path) -> None:
    found = in_cluster({**POD, "KUBERNETES_SERVICE_PORT": port}, str(account))
    assert isinstance(found, Gap)
    assert found.reason.startswith("KUBERNETES_SERVICE_PORT is '")
    assert found.reason.endswith("but must be a port, 1 to 65535")


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_a_token_is_told_what_to_do(missing: str, account: Path) -> None:
    (account / missing).unlink()
    found = in_cluster(POD, str(account))
    assert isinstance(found, Gap)
    assert f"{account}/{missing} cannot be read" in found.reason
    assert "automountServiceAccountToken" in found.reason


def test_a_pod_without_a_namespace_is_in_the_default_one(account: Path) -> None:
    (account / "namespace").unlink()
    found = in_cluster(POD, str(account))
    assert isinstance(found, Access)
    assert found.namespace == "default"


def test_a_pod_honours_a_proxy_and_tells_a_bad_one(account: Path) -> None:
    found = in_cluster({**POD, "HTTPS_PROXY": "http://p:1"}, str(account))
    assert isinstance(found, Access)
    assert found.proxy is not None
    bad = in_cluster({**POD, "HTTPS_PROXY": "ftp://p"}, str(account))
    assert bad == Gap(
        "HTTPS_PROXY is 'ftp://p', but must be an HTTP proxy such as http://proxy:3128"
    )
