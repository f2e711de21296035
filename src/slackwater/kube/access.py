"""How the API server is reached and who we are there: from a kubeconfig or from inside the cluster.

Owns the order in which the places are looked at. Refuses to guess: a file that is named and
cannot be used is a Gap with its reason, not a reason to look elsewhere.
"""

import os
from collections.abc import Mapping
from typing import Protocol

import msgspec

from slackwater.model.gap import Gap


class Server(msgspec.Struct, frozen=True):
    """Where it listens. `prefix` is a path in front of every path, without a slash at its end."""

    host: str
    port: int
    scheme: str = "https"
    prefix: str = ""

    @property
    def bracketed(self) -> str:
        """The host as a URL and a header have it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bracketed}:{self.port}{self.prefix}"


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy that is asked to CONNECT. `authorization` is a whole header's value."""

    host: str
    port: int
    authorization: str = ""


class Trust(msgspec.Struct, frozen=True):
    """Whom we believe. No authority at all means the machine's own; `unchecked` means anybody."""

    authority_file: str = ""
    authority_data: bytes = b""
    server_name: str = ""
    unchecked: bool = False


class Identity(msgspec.Struct, frozen=True):
    """What we show: an Authorization header, a client certificate with its key, or nothing."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""


class Credentials(Protocol):
    """Where an identity comes from. Safe to be asked by several threads."""

    def identity(self) -> Identity:
        """In force now. Raises CredentialsError."""
        ...

    def renew(self, refused: Identity) -> bool:
        """The server did not know this one: whether another can be had. Raises CredentialsError."""
        ...


class Access(msgspec.Struct, frozen=True):
    """All that a client needs. `namespace` is the context's own; `origin` says where from."""

    server: Server
    trust: Trust
    credentials: Credentials
    proxy: Proxy | None = None
    namespace: str = "default"
    origin: str = ""
    #: Sent with every request: as whom we act, where that is another (`as` in a kubeconfig).
    headers: tuple[tuple[str, str], ...] = ()


def find_access(
    environ: Mapping[str, str], kubeconfig: str = "", context: str = ""
) -> Access | Gap:
    """--kubeconfig and --context, then KUBECONFIG, then in-cluster, then ~/.kube/config.

    A context is a word of kubeconfigs: where one is asked for, the pod's own account is not.
    """
    listed = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if kubeconfig or listed:
        return _from_files([kubeconfig] if kubeconfig else listed, context, environ)
    from slackwater.kube.in_cluster import in_cluster, is_in_cluster

    if not context and is_in_cluster(environ):
        return in_cluster(environ)
    usual = os.path.join(environ.get("HOME", "") or os.path.expanduser("~"), ".kube", "config")
    if not os.path.exists(usual):
        return Gap(
            f"no cluster is known: {usual} is not there, KUBECONFIG is not set, and this is no "
            "pod (KUBERNETES_SERVICE_HOST is not set); name a file with --kubeconfig"
        )
    return _from_files([usual], context, environ)


def _from_files(paths: list[str], context: str, environ: Mapping[str, str]) -> Access | Gap:
    """Imported here: the agent in its pod never reads YAML for this."""
    from slackwater.kube.kubeconfig import from_files

    return from_files(paths, context, environ)
