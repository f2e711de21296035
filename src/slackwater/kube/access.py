"""How a cluster's API server is reached and who we are there, as values.

Where these come from (kubeconfig, service account) is kube.credentials'. A token file is read
again when it changes: the kubelet replaces a pod's token long before it expires.
"""

import os
from typing import Protocol

import msgspec

from slackwater.http.endpoint import Endpoint, Identity, Proxy, Server, Trust
from slackwater.http.errors import CredentialsError

#: Longer than any token: a wrong file is not read into memory.
_LONGEST_TOKEN = 1 << 20


class Credentials(Protocol):
    """Provides the identity. Safe to use from several threads."""

    def identity(self) -> Identity:
        """The current one. Raises CredentialsError."""
        ...

    def renew(self, refused: Identity) -> bool:
        """After a 401 for `refused`: whether there is another now. Raises CredentialsError."""
        ...


class Access(msgspec.Struct, frozen=True):
    """All that a client needs. `namespace` is the context's; `origin` says where it was found."""

    server: Server
    trust: Trust
    credentials: Credentials
    proxy: Proxy | None = None
    namespace: str = "default"
    origin: str = ""
    #: Sent with every request: impersonation (`as` in a kubeconfig).
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.server, self.trust, self.proxy)


class FixedCredentials:
    """Credentials that never change."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def identity(self) -> Identity:
        return self._identity

    def renew(self, refused: Identity) -> bool:
        return refused != self._identity


class TokenFile:
    """Guards the last token. The file is checked each time (one system call) and read if it
    changed; while it cannot be read, the last token stays in use."""

    def __init__(self, path: str, shown: Identity = Identity()) -> None:  # noqa: B008
        self._path = path
        self._shown = shown
        self._read: tuple[tuple[int, int, int], Identity] | None = None

    def identity(self) -> Identity:
        last = self._read
        try:
            found = os.stat(self._path)
            stamp = found.st_ino, found.st_mtime_ns, found.st_size
            if last is None or last[0] != stamp:
                last = self._read = (stamp, self._identity_in_file())
        except OSError as error:
            if last is None:
                why = error.strerror or str(error)
                raise CredentialsError(f"the token's file {self._path}: {why}") from None
        return last[1]

    def renew(self, refused: Identity) -> bool:
        """Reads the file again, whatever its timestamps say."""
        self._read = None
        return self.identity() != refused

    def _identity_in_file(self) -> Identity:
        with open(self._path, "rb") as file:
            content = file.read(_LONGEST_TOKEN)
        try:
            token = content.decode("ascii").strip()
        except UnicodeDecodeError:
            token = ""
        if not token or not token.isprintable() or " " in token:
            raise CredentialsError(f"the token's file {self._path} holds no token")
        return Identity(bearer(token), self._shown.certificate, self._shown.key)


def bearer(token: str) -> str:
    return f"Bearer {token}"
