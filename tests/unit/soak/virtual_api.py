"""An API server in memory with one agent as its client, and with a client's own interface.

Owns the objects and the events that the agent has not heard yet. It may be away, and may forget
what it would have told (410). It keeps nothing of an object that is gone.
"""

from collections.abc import Callable, Generator, Iterator
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from slackwater.contract.resources import EVENTS, NODES, PODS, ObjectSelector, Resource
from slackwater.http.errors import UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import EVERYTHING, ObjectList
from slackwater.kube.stream import WatchEvent

T = TypeVar("T")
Document = dict[str, Any]
#: Of the events that the agent told, as many as a server keeps for an hour.
_KEPT_EVENTS = 100


class VirtualApi:
    """Guards the objects, by kind and key."""

    def __init__(self) -> None:
        self.away = False
        #: What becomes of a pod that is evicted.
        self.evict: Callable[[str, str], None] = lambda _namespace, _name: None
        self.requests = 0
        self._objects: dict[str, dict[str, Document]] = {}
        self._untold: dict[str, list[WatchEvent]] = {}
        self._forgotten: set[str] = set()
        self._version = 10

    def put(self, resource: Resource, document: Document) -> Document:
        """Made, or replaced."""
        of_kind, key = self._of_kind(resource), key_of(document)
        kind = "MODIFIED" if key in of_kind else "ADDED"
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        of_kind[key] = document
        self._tell(resource, kind, document)
        if resource is EVENTS and len(of_kind) > _KEPT_EVENTS:
            del of_kind[next(iter(of_kind))]
        return document

    def remove(self, resource: Resource, key: str) -> None:
        document = self._of_kind(resource).pop(key, None)
        if document is not None:
            self._tell(resource, "DELETED", document)

    def find(self, resource: Resource, key: str) -> Document | None:
        return self._of_kind(resource).get(key)

    def keys(self, resource: Resource) -> list[str]:
        return list(self._of_kind(resource))

    def forget(self) -> None:
        """What has not been told yet will not be: whoever asks for it has to list again."""
        self._forgotten.update(self._objects)
        self._untold.clear()

    def listed(self, resource: Resource, selected: Callable[[Document], bool]) -> list[bytes]:
        self._untold.pop(resource.plural, None)
        self._forgotten.discard(resource.plural)
        return [msgspec.json.encode(each) for each in self._of_kind(resource).values()
                if selected(each)]  # fmt: skip

    def take_events(self, resource: Resource) -> list[WatchEvent]:
        if resource.plural in self._forgotten:
            raise HttpStatusError(f"watch {resource.plural}", HTTPStatus.GONE, "Expired", "too old")
        return self._untold.pop(resource.plural, [])

    @property
    def version(self) -> str:
        return str(self._version)

    def has_news(self, resource: Resource) -> bool:
        return resource.plural in self._untold or resource.plural in self._forgotten

    def _of_kind(self, resource: Resource) -> dict[str, Document]:
        return self._objects.setdefault(resource.plural, {})

    def _tell(self, resource: Resource, kind: str, document: Document) -> None:
        if resource is not EVENTS:
            raw = msgspec.Raw(msgspec.json.encode(document))
            self._untold.setdefault(resource.plural, []).append(WatchEvent(kind, raw))


def key_of(document: Document) -> str:
    meta = document["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]


class _Stream:
    """What there is to tell now, and its end."""

    def __init__(self, events: list[WatchEvent]) -> None:
        self._events = events

    def __iter__(self) -> Generator[WatchEvent, None, None]:  # noqa: PYI058 - it is closed
        yield from self._events

    def close(self) -> None:
        """Nothing waits."""


class VirtualClient:
    """In place of kube.client.Client."""

    def __init__(self, api: VirtualApi) -> None:
        self._api = api

    def close(self) -> None:
        """There is no connection."""

    def list(
        self,
        resource: Resource,
        read: Callable[[msgspec.Raw], T],
        *,
        namespace: str = "",
        selector: ObjectSelector = EVERYTHING,
        **_more: object,
    ) -> ObjectList[T]:
        self._ask()
        name = selector.fields.removeprefix("metadata.name=")
        one = name if name != selector.fields else ""

        def selected(document: Document) -> bool:
            meta = document["metadata"]
            return one in ("", meta["name"]) and namespace in ("", meta.get("namespace", ""))

        found = self._api.listed(resource, selected)
        return ObjectList([read(msgspec.Raw(each)) for each in found], self._api.version)

    def watch(self, resource: Resource, _version: str, **_more: object) -> _Stream:
        self._ask()
        return _Stream(self._api.take_events(resource))

    def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        return msgspec.json.encode(self._find(resource, name, namespace))

    def create(self, resource: Resource, body: Document, namespace: str = "") -> bytes:
        self._ask()
        meta = {**body["metadata"], "uid": f"of-{body['metadata']['name']}"}
        if namespace:
            meta["namespace"] = namespace
        return msgspec.json.encode(self._api.put(resource, {**body, "metadata": meta}))

    def replace(self, resource: Resource, _name: str, body: Document, **_more: object) -> bytes:
        self._ask()
        return msgspec.json.encode(self._api.put(resource, body))

    def apply(self, resource: Resource, name: str, body: Document, **_more: object) -> bytes:
        return self._change(resource, name, "", body)

    def patch(
        self,
        resource: Resource,
        name: str,
        body: Document,
        *,
        namespace: str = "",
        **_more: object,
    ) -> bytes:
        return self._change(resource, name, namespace, body)

    def delete(self, resource: Resource, name: str, namespace: str = "", **_more: object) -> None:
        self._find(resource, name, namespace)
        self._api.remove(resource, f"{namespace}/{name}" if namespace else name)

    def evict(self, namespace: str, name: str, **_more: object) -> None:
        self._find(PODS, name, namespace)
        self._api.evict(namespace, name)

    def _change(self, resource: Resource, name: str, namespace: str, body: Document) -> bytes:
        document = merged(self._find(resource, name, namespace), body)
        return msgspec.json.encode(self._api.put(resource, document))

    def _find(self, resource: Resource, name: str, namespace: str) -> Document:
        self._ask()
        found = self._api.find(resource, f"{namespace}/{name}" if namespace else name)
        if found is None:
            sentence = f"{resource.plural} {name} not found"
            raise HttpStatusError(f"GET {name}", HTTPStatus.NOT_FOUND, "NotFound", sentence)
        return found

    def _ask(self) -> None:
        self._api.requests += 1
        if self._api.away:
            raise UnreachableError("the API server is away")


def merged(document: Document, patch: Document) -> Document:
    """By the rules of a merge patch; conditions go by their type, as in an apply."""
    made = dict(document)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif key == "conditions":
            made[key] = list(_conditions(document.get(key, []), value))
        elif isinstance(value, dict):
            made[key] = merged(made.get(key) or {}, value)
        else:
            made[key] = value
    return made


def _conditions(there: list[Document], said: list[Document]) -> Iterator[Document]:
    by_type = {each["type"]: each for each in there}
    for each in said:
        if each.get("$patch") == "delete":
            by_type.pop(each["type"], None)
        else:
            by_type[each["type"]] = {**by_type.get(each["type"], {}), **each}
    yield from by_type.values()


def node_object(name: str, uid: str) -> tuple[Resource, Document]:
    amounts = {"cpu": "4", "memory": "8Gi"}
    status = {"capacity": dict(amounts), "allocatable": dict(amounts)}
    labels = {"kubernetes.io/hostname": name, "volcano.sh/oversubscription": "true"}
    return NODES, {"metadata": {"name": name, "uid": uid, "labels": labels}, "status": status}
