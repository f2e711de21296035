"""Owns the text of a kubeconfig: one server, one way to say who one is. Writes nothing."""

import base64
import json
from pathlib import Path
from typing import Any

from tools.cluster.certificates import Identity


def by_certificate(server: str, authority: Path, identity: Identity) -> str:
    """With everything inside, so that the file can be copied away."""
    user = {
        "client-certificate-data": _encoded(identity.certificate),
        "client-key-data": _encoded(identity.key),
    }
    return _kubeconfig(server, authority, user)


def by_token(server: str, authority: Path, token: str) -> str:
    return _kubeconfig(server, authority, {"token": token})


def _kubeconfig(server: str, authority: Path, user: dict[str, Any]) -> str:
    """JSON is YAML."""
    name = "slackwater"
    cluster = {"server": server, "certificate-authority-data": _encoded(authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(config, indent=1)


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
