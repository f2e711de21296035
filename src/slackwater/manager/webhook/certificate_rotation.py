"""Keeps the webhook's certificates: in a Secret, in the webhook's configuration, and in use.

Every replica looks every few seconds what the Secret holds and serves it, without a restart. Only
the leader renews, writes the Secret, and tells the API server whom to trust.
"""

import base64
import datetime as dt
import os
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence

import msgspec

from slackwater.contract.resources import MUTATING_WEBHOOKS, SECRETS
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.manager.webhook.certificates import StoredCertificates, expiry, renew
from slackwater.manager.webhook.webhook_names import CONFIGURATION, SECRET, WEBHOOK

#: Seconds between two looks; before there is a certificate, and afterwards.
FIRST_PAUSE, PAUSE = 1.0, 10.0
_KEYS = {
    "authorities": "ca.crt",
    "authority_keys": "ca.key",
    "certificate": "tls.crt",
    "key": "tls.key",
}


class _SecretMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Secret(msgspec.Struct, frozen=True):
    metadata: _SecretMeta = _SecretMeta()
    data: dict[str, str] | None = None


class _ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    ca_bundle: str = ""


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    client_config: _ClientConfig = _ClientConfig()


class _Configuration(msgspec.Struct, frozen=True):
    webhooks: tuple[_Webhook, ...] = ()


class CertificateRotation:
    """Guards the thread, and the context that new connections get."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        names: Sequence[str],
        *,
        leads: Callable[[], bool],
        loaded: Callable[[float | None], None],
        tell: Callable[[str], None],
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._names = tuple(names)
        self._leads = leads
        self._loaded = loaded
        self._tell = tell
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._serves = StoredCertificates()
        self._told = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def context(self) -> ssl.SSLContext | None:
        return self._context

    def look(self) -> None:
        """Once. What fails is told when it changes, and tried again."""
        try:
            self._say(self._look())
        except RequestError as error:
            self._say(str(error))

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.look()
                self._stopping.wait(PAUSE if self._context is not None else FIRST_PAUSE)
        finally:
            self._client.close()

    def _look(self) -> str:
        """What is wrong; empty where nothing is."""
        secret = self._read_secret()
        stored = decode_secret(secret.data or {}) if secret else StoredCertificates()
        problem = ""
        if self._leads():
            trusted, problem = self._read_trusted()
            stored = self._renew(secret, stored, trusted)
            if trusted != stored.authorities and not problem:
                self._publish(stored.authorities)
        self._serve(stored)
        return problem

    def _renew(
        self, secret: _Secret | None, stored: StoredCertificates, trusted: bytes
    ) -> StoredCertificates:
        wanted = renew(stored, self._names, trusted, self._clock())
        if wanted == stored:
            return stored
        meta = {"name": SECRET, "namespace": self._namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "data": encode_secret(wanted)}
        if secret is None:
            self._client.create(SECRETS, {**body, "metadata": meta}, self._namespace)
        else:
            # Together with what was read: of two leaders, while one is replaced, one fails.
            version = {"resourceVersion": secret.metadata.resource_version}
            patch = {"metadata": version, "data": body["data"]}
            self._client.patch(
                SECRETS, SECRET, patch, kind=PatchKind.MERGE, namespace=self._namespace
            )
        self._tell("certificates were renewed")
        return wanted

    def _read_secret(self) -> _Secret | None:
        try:
            raw = self._client.get(SECRETS, SECRET, self._namespace)
        except HttpStatusError as refused:
            if refused.reason == "NotFound":
                return None
            raise
        return msgspec.json.decode(raw, type=_Secret)

    def _read_trusted(self) -> tuple[bytes, str]:
        """What the API server trusts; why that cannot be known."""
        try:
            raw = self._client.get(MUTATING_WEBHOOKS, CONFIGURATION)
        except HttpStatusError as refused:
            return b"", str(refused)
        hooks = msgspec.json.decode(raw, type=_Configuration).webhooks
        ours = next((each for each in hooks if each.name == WEBHOOK), None)
        if ours is None:
            return b"", f"MutatingWebhookConfiguration {CONFIGURATION} has no webhook {WEBHOOK}"
        return _decode(ours.client_config.ca_bundle), ""

    def _publish(self, authorities: bytes) -> None:
        bundle = base64.b64encode(authorities).decode()
        patch = {"webhooks": [{"name": WEBHOOK, "clientConfig": {"caBundle": bundle}}]}
        self._client.patch(MUTATING_WEBHOOKS, CONFIGURATION, patch, kind=PatchKind.STRATEGIC)
        self._tell("the API server was told whom to trust")

    def _serve(self, stored: StoredCertificates) -> None:
        if stored == self._serves or not stored.certificate:
            return
        try:
            self._context = make_context(stored.certificate, stored.key)
        except (ssl.SSLError, ValueError) as error:
            self._say(f"Secret {self._namespace}/{SECRET} has no certificate that works: {error}")
            return
        self._serves = stored
        self._loaded(expiry(stored.certificate))

    def _say(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            self._tell(problem or "recovered")


def make_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """OpenSSL reads certificates from files only, so they get a file in memory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    handle = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(handle, certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{handle}", password=lambda: b"")
    finally:
        os.close(handle)
    return context


def decode_secret(data: Mapping[str, str]) -> StoredCertificates:
    return StoredCertificates(**{name: _decode(data.get(key, "")) for name, key in _KEYS.items()})


def encode_secret(stored: StoredCertificates) -> dict[str, str]:
    return {key: base64.b64encode(getattr(stored, name)).decode() for name, key in _KEYS.items()}


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""
