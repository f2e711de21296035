"""Kubeconfigs: whole in themselves, one server, one user."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tools.cluster.certificates import Identity, by_certificate, by_token

SERVER = "https://127.0.0.1:21003"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("ca.crt", "a.crt", "a.key"):
        (tmp_path / name).write_text(f"content of {name}")
    return tmp_path


def parts(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cluster and the user that the current context leads to."""
    config = json.loads(text)
    [context] = [c for c in config["contexts"] if c["name"] == config["current-context"]]
    [cluster] = [c for c in config["clusters"] if c["name"] == context["context"]["cluster"]]
    [user] = [u for u in config["users"] if u["name"] == context["context"]["user"]]
    return cluster["cluster"], user["user"]


def decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def test_a_certificate_is_inside(files: Path) -> None:
    identity = Identity(files / "a.crt", files / "a.key")
    cluster, user = parts(by_certificate(SERVER, files / "ca.crt", identity))
    assert cluster["server"] == SERVER
    assert decoded(cluster["certificate-authority-data"]) == "content of ca.crt"
    assert decoded(user["client-certificate-data"]) == "content of a.crt"
    assert decoded(user["client-key-data"]) == "content of a.key"
    assert str(files) not in by_certificate(SERVER, files / "ca.crt", identity)


def test_a_token_is_the_whole_user(files: Path) -> None:
    cluster, user = parts(by_token(SERVER, files / "ca.crt", "abc"))
    assert user == {"token": "abc"}
    assert decoded(cluster["certificate-authority-data"]) == "content of ca.crt"
