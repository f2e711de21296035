"""How a cluster's API server is reached and who we are there, as values.

Where these come from (kubeconfig, service account) is kube.credentials'. A token file is read
again when it changes: the kubelet replaces a pod's token long before it expires.
"""

import os
from typing import Protocol

import msgspec

from slackwater.http.endpoint import Endpoint, Identity, Proxy, Server, Trust
from slackwater.http.errors import CredentialsError

#: Longer than any token; a file that is not one is not read into memory.
_LONGEST_TOKEN = 1 << 20


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

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.server, self.trust, self.proxy)


class FixedCredentials:
    """They are what they are."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def identity(self) -> Identity:
        return self._identity

    def renew(self, refused: Identity) -> bool:
        return refused != self._identity


class TokenFile:
    """Guards what was last read. The file is looked at each time (one system call) and read when
    it is another one; while it cannot be read, the last token goes on."""

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
        """Read again, whatever the file's dates say."""
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
