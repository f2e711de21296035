"""Credentials from a program: exec plugins of client.authentication.k8s.io, v1 and v1beta1.

The program runs when credentials are first needed, and again when they expire or the server
answers 401; one run at a time.
"""

import datetime as dt
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from slackwater.http.endpoint import Identity
from slackwater.http.errors import CredentialsError
from slackwater.kube.access import bearer
from slackwater.model.problem import quoted

#: A program that asks a person may open a browser; others need seconds.
_PATIENCE, _PATIENCE_WITH_PEOPLE = 60.0, 600.0
_LARGEST_ANSWER = 1 << 20


class ExecPlugin(msgspec.Struct, frozen=True):
    """From a kubeconfig. `command` is a path or a name on PATH; `cluster` is what the program is
    told about the server, None unless it asks for that."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    cluster: dict[str, object] | None = None


class _ExecCredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[dt.datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecCredentialStatus | None = None


class ExecCredentials:
    """Guards the last answer of one program."""

    def __init__(
        self,
        plugin: ExecPlugin,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plugin = plugin
        self._environ = environ
        self._clock = clock
        self._lock = threading.Lock()
        self._last: tuple[Identity, float | None] | None = None

    def identity(self) -> Identity:
        with self._lock:
            return self._current()

    def renew(self, refused: Identity) -> bool:
        """Another thread may have renewed them meanwhile; then those are tried."""
        with self._lock:
            if self._current() == refused:
                self._last = None
            return self._current() != refused

    def _current(self) -> Identity:
        last = self._last
        if last is None or (last[1] is not None and self._clock() >= last[1]):
            last = self._last = _fetched(self._plugin, self._environ)
        return last[0]


def _fetched(plugin: ExecPlugin, environ: Mapping[str, str]) -> tuple[Identity, float | None]:
    output = _run(plugin, environ)
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        told = f"its answer is no ExecCredential ({error})"
        raise _failed(plugin, told) from None
    if answer.api_version != plugin.api_version:
        said = quoted(answer.api_version)
        raise _failed(plugin, f"its apiVersion is {said}, but must be {plugin.api_version}")
    status = answer.status or _ExecCredentialStatus()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise _failed(plugin, "it gave a certificate without its key, or a key alone")
    if not status.token and not status.client_certificate_data:
        raise _failed(plugin, "it gave neither a token nor a certificate")
    identity = Identity(
        bearer(status.token) if status.token else "",
        status.client_certificate_data.encode(),
        status.client_key_data.encode(),
    )
    until = status.expiration_timestamp
    return identity, None if until is None else until.timestamp()


def _run(plugin: ExecPlugin, environ: Mapping[str, str]) -> bytes:
    import subprocess

    asks = _may_ask(plugin)
    patience = _PATIENCE_WITH_PEOPLE if asks else _PATIENCE
    try:
        done = subprocess.run(
            [plugin.command, *plugin.args],
            env={**environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _told(plugin, asks)},
            stdin=None if asks else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=patience,
            check=False,
        )
    except FileNotFoundError:
        raise _failed(plugin, "it is not installed") from None
    except subprocess.TimeoutExpired:
        raise _failed(plugin, f"no answer within {patience:g} s") from None
    except (OSError, ValueError) as error:
        raise _failed(plugin, getattr(error, "strerror", None) or str(error)) from None
    if done.returncode:
        raise _failed(plugin, f"it ended with exit code {done.returncode}")
    return done.stdout[:_LARGEST_ANSWER]


def _may_ask(plugin: ExecPlugin) -> bool:
    """Whether the program may talk to the person at the terminal."""
    at_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not at_terminal:
        raise _failed(plugin, "its interactiveMode is Always, and there is no terminal here")
    return at_terminal and plugin.interactive_mode != "Never"


def _told(plugin: ExecPlugin, asks: bool) -> str:
    spec: dict[str, object] = {"interactive": asks}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def _failed(plugin: ExecPlugin, why: str) -> CredentialsError:
    hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
    name = os.path.basename(plugin.command)
    return CredentialsError(f"the credentials' program {name}: {why}{hint}")
