"""TLS contexts: which authorities are trusted and which client certificate is presented.

A context is kept until the authority's file or the client certificate changes: a cluster's
authorities are rotated while programs run. Keys are never written to a disk.
"""

import os
from typing import TYPE_CHECKING

from slackwater.http.endpoint import Identity, Trust
from slackwater.http.errors import CredentialsError, UnreachableError

if TYPE_CHECKING:
    import ssl

_Stamp = tuple[int, int, int]


class TlsContexts:
    """Guards the last context. Two threads that create one at the same time only do it twice."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._last: tuple[_Stamp | None, Identity, ssl.SSLContext] | None = None

    def context(self, identity: Identity) -> "ssl.SSLContext":
        stamp = self._stamp()
        shown = Identity(certificate=identity.certificate, key=identity.key)
        last = self._last
        if last is None or last[:2] != (stamp, shown):
            last = self._last = (stamp, shown, _create_context(self._trust, shown))
        return last[2]

    def _stamp(self) -> _Stamp | None:
        if not self._trust.authority_file:
            return None
        try:
            found = os.stat(self._trust.authority_file)
        except OSError as error:
            raise UnreachableError(_unreadable(self._trust.authority_file, error)) from None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _create_context(trust: Trust, shown: Identity) -> "ssl.SSLContext":
    import ssl

    # Not create_default_context: it reads the machine's whole bundle (2.3 MiB), and from Python
    # 3.13 on refuses authorities without a key identifier, as many clusters have them.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if trust.unchecked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        _load_authorities(context, trust)
    if shown.certificate:
        _load_certificate(context, shown)
    return context


def _load_authorities(context: "ssl.SSLContext", trust: Trust) -> None:
    import ssl

    try:
        if trust.authority_data:
            context.load_verify_locations(cadata=trust.authority_data.decode("ascii"))
        elif trust.authority_file:
            context.load_verify_locations(cafile=trust.authority_file)
        else:
            context.load_default_certs()
    except (ssl.SSLError, UnicodeError) as error:
        where = trust.authority_file or "certificate-authority-data"
        raise UnreachableError(f"{where} holds no certificate in PEM: {error}") from None
    except OSError as error:
        raise UnreachableError(_unreadable(trust.authority_file, error)) from None


def _load_certificate(context: "ssl.SSLContext", shown: Identity) -> None:
    """OpenSSL reads certificates from files only, so they get a file in memory."""
    import ssl

    handle = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(handle, shown.certificate + b"\n" + shown.key)
        # For a key with a passphrase OpenSSL would prompt on the terminal, from any thread.
        context.load_cert_chain(f"/proc/self/fd/{handle}", password=_refuse_passphrase)
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(f"the client certificate cannot be used: {error}") from None
    finally:
        os.close(handle)


def _refuse_passphrase() -> str:
    raise ValueError("its key has a passphrase")


def _unreadable(path: str, error: OSError) -> str:
    return f"{path} cannot be read: {error.strerror or error}"
