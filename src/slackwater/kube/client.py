"""The API server's verbs, one method for each.

Knows the path, the query and the content type of each verb. Answers are bytes: the caller decodes
the few fields that it uses. Lists are read while they come, never more than one object in memory;
a page that comes too late (410, the server has forgotten the beginning) starts the list again. May
be shared between threads.
"""

import contextlib
import enum
from collections.abc import Callable, Generator, Iterable
from typing import Generic, TypeVar

import msgspec

from slackwater.contract.resources import PODS, ObjectSelector, Resource
from slackwater.http.connection import HttpRequest
from slackwater.http.upgraded import UpgradedConnection
from slackwater.kube.access import Access
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.list_scanner import ListScanner
from slackwater.kube.stream import WatchStream
from slackwater.kube.transport import Transport

T = TypeVar("T")

EVERYTHING = ObjectSelector()
#: The server retries an eviction that conflicts twenty times, every 0.5 s (EvictionsRetry in
#: pkg/registry/core/pod/storage/eviction.go), also if the uid does not match.
_EVICTION_SECONDS = 20.0
#: How long a watch lasts, and how long it may be silent: there is a bookmark each minute.
WATCH_SECONDS, SILENCE_SECONDS = 300.0, 90.0
#: Of `list`: what the server has in memory, without a question to etcd.
ANY_VERSION = "0"
#: A list that expires this often while it is read would expire the next time as well.
_MOST_STARTS = 4


class PatchKind(enum.Enum):
    """The content types of patches."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


class ObjectList(msgspec.Struct, Generic[T], frozen=True):
    """`version` is where a watch continues."""

    items: list[T]
    version: str


#: The pieces of one page's answer, by the page's token.
OpenPage = Callable[[str], Generator[bytes, None, None]]


class Client:
    """One API server. Every method raises RequestError and nothing else."""

    def __init__(self, access: Access, user_agent: str, timeout: float = 10.0) -> None:
        self._transport = Transport(access, user_agent, timeout)
        self.access = access

    def get_raw(self, path: str) -> bytes:
        """GET of any path, such as /version or /readyz, whatever the answer's type."""
        return bytes(self._transport.fetch(HttpRequest("GET", path))[0])

    def server_time(self) -> float | None:
        """Seconds since 1970 by the server's clock; None where its answer does not say."""
        from email.utils import parsedate_to_datetime  # late: it brings much of email

        said = self._transport.fetch_date(HttpRequest("GET", "/version"))
        try:
            return parsedate_to_datetime(said).timestamp()
        except ValueError:
            return None

    def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        return bytes(self._transport.fetch_json(HttpRequest("GET", resource.path(namespace, name))))

    def list(
        self,
        resource: Resource,
        read: Callable[[msgspec.Raw], T],
        *,
        namespace: str = "",
        selector: ObjectSelector = EVERYTHING,
        page: int = 500,
        version: str = "",
    ) -> ObjectList[T]:
        """What `read` returns for each object. Errors of `read` pass through.

        Not older than `version`: the latest, which an older server asks etcd for, if it is empty;
        ANY_VERSION for what the server has in memory. From memory a list comes as a whole: a limit
        is ignored with "0", and with another version it would send the question to etcd.
        """
        path = resource.path(namespace)
        paged = version in ("", ANY_VERSION)

        def open_page(token: str) -> Generator[bytes, None, None]:
            query = {
                "limit": str(page) if paged else "",
                "continue": token,
                "resourceVersion": "" if token else version,
                "resourceVersionMatch": "" if paged else "NotOlderThan",
                **_selected(selector),
            }
            return self._transport.open_list(HttpRequest("GET", _with(path, query)))

        return all_pages(open_page, read, f"GET {path}")

    def create(self, resource: Resource, body: object, namespace: str = "") -> bytes:
        return self._write("POST", resource.path(namespace), body)

    def replace(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        """With a resourceVersion in the body, 409 (Conflict) if the object was changed since."""
        return self._write("PUT", resource.path(namespace, name, subresource), body)

    def apply(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        manager: str,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        """Server-side apply, forced: these fields are ours, whoever set them before. The kind and
        the name need not be in the body."""
        path = resource.path(namespace, name, subresource)
        target = _with(path, {"fieldManager": manager, "force": "true"})
        whole = _named(body, resource, name) if isinstance(body, dict) else body
        return self._write("PATCH", target, whole, "application/apply-patch+yaml")

    def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        kind: PatchKind,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        path = resource.path(namespace, name, subresource)
        return self._write("PATCH", path, body, kind.value)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        """If `uid` is given, the delete fails with 409 when the object was replaced."""
        options = _delete_options(uid, grace_seconds)
        body = msgspec.json.encode(options) if options else b""
        kind = "application/json" if body else ""
        self._transport.fetch_json(
            HttpRequest("DELETE", resource.path(namespace, name), body, kind)
        )

    def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """By the Eviction API: disruption budgets are respected, a refusal is 429. If `uid` is
        given, it fails with 409 when the pod was replaced."""
        options = _delete_options(uid, grace_seconds)
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = PODS.path(namespace, name, "eviction")
        sent = msgspec.json.encode(body)
        self._transport.fetch_json(
            HttpRequest("POST", path, sent, "application/json", _EVICTION_SECONDS)
        )

    def watch(
        self,
        resource: Resource,
        version: str,
        *,
        namespace: str = "",
        selector: ObjectSelector = EVERYTHING,
        seconds: float = WATCH_SECONDS,
        silence: float = SILENCE_SECONDS,
    ) -> WatchStream:
        """Events after this version, with bookmarks, for `seconds`. Ends with UnreachableError if
        nothing comes for `silence` seconds."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(round(seconds), 1)),
            **_selected(selector),
        }
        call = HttpRequest("GET", _with(resource.path(namespace), query))
        return self._transport.open_stream(call, silence)

    def upgrade(
        self, path: str, query: Iterable[tuple[str, str]], headers: Iterable[tuple[str, str]]
    ) -> UpgradedConnection:
        """A GET that asks for another protocol by these headers, such as a websocket's."""
        from urllib.parse import urlencode

        target = f"{path}?{urlencode(list(query))}"
        return self._transport.open_upgrade(HttpRequest("GET", target, headers=tuple(headers)))

    def close(self) -> None:
        """Closes the calling thread's connection; the next call opens another."""
        self._transport.close()

    def _write(
        self, method: str, target: str, body: object, content_type: str = "application/json"
    ) -> bytes:
        sent = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return bytes(self._transport.fetch_json(HttpRequest(method, target, sent, content_type)))


def all_pages(open_page: OpenPage, read: Callable[[msgspec.Raw], T], asked: str) -> ObjectList[T]:
    """`open_page` begins with an empty token."""
    for _ in range(_MOST_STARTS - 1):
        try:
            return _from_start(open_page, read, asked)
        except HttpStatusError as refused:
            if refused.reason != "Expired":
                raise
    return _from_start(open_page, read, asked)


def _from_start(open_page: OpenPage, read: Callable[[msgspec.Raw], T], asked: str) -> ObjectList[T]:
    items: list[T] = []
    token = ""
    while True:
        scanner = ListScanner(asked)
        with contextlib.closing(open_page(token)) as pieces:
            for piece in pieces:
                items += [read(raw) for raw in scanner.feed(piece)]
        meta = scanner.finish()
        token = meta.continue_
        if not token:
            return ObjectList(items, meta.resource_version)


def _named(body: dict[str, object], resource: Resource, name: str) -> dict[str, object]:
    """An apply needs the kind and the name in the body as well."""
    known = {"apiVersion": resource.api_version, "kind": resource.kind}
    meta = body.get("metadata")
    metadata = {"name": name, **meta} if isinstance(meta, dict) else {"name": name}
    return {**known, **body, "metadata": metadata}


def _delete_options(uid: str, grace_seconds: int | None) -> dict[str, object]:
    """metav1.DeleteOptions; by default with the object's own grace period."""
    options: dict[str, object] = {}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _selected(selector: ObjectSelector) -> dict[str, str]:
    return {"labelSelector": selector.labels, "fieldSelector": selector.fields}


def _with(path: str, query: dict[str, str]) -> str:
    from urllib.parse import urlencode

    said = urlencode({key: value for key, value in query.items() if value})
    return f"{path}?{said}" if said else path
