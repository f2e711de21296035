"""Reads a cluster's objects as `kubectl get -o json` does, without a process for each look.

A test that waits looks up to ten times a second, and kubectl takes longer to start than to ask.
Refuses what it does not know (None): kubectl then answers, or says what is wrong in its own words.
"""

import http.client
import json
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from tools.cluster.processes import LOOPBACK

_TIMEOUT_SECONDS = 30.0
# One answer with all groups, versions and names (Kubernetes 1.30).
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_OPTIONS = {"-l": "labelSelector", "--field-selector": "fieldSelector"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a command line asks for."""

    resource: str
    name: str = ""
    namespace: str = "default"
    everywhere: bool = False
    selectors: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Served:
    """Where a resource is: the path of its group and version, and its name there."""

    path: str
    resource: str
    is_namespaced: bool


class Reading:
    """Guards what the server has said that it serves; a kind may come at any time."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port = port
        self._context = context
        self._served: dict[str, Served] = {}

    def get(self, command: Sequence[str]) -> dict[str, Any] | None:
        wanted = parse(command)
        served = None if wanted is None else self._find(wanted.resource)
        if wanted is None or served is None:
            return None
        found = self._ask(path_of(wanted, served))
        return None if found is None else as_kubectl_shows(found)

    def _find(self, name: str) -> Served | None:
        if name not in self._served:
            answers = [self._ask(path, _DISCOVERY) for path in ("/api", "/apis")]
            self._served = names(answer for answer in answers if answer is not None)
        return self._served.get(name)

    def _ask(self, path: str, accept: str = "application/json") -> dict[str, Any] | None:
        connection = http.client.HTTPSConnection(
            LOOPBACK, self._port, timeout=_TIMEOUT_SECONDS, context=self._context
        )
        try:
            connection.request("GET", path, headers={"Accept": accept})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            return None
        found: dict[str, Any] = json.loads(body)
        return found


def parse(command: Sequence[str]) -> Wanted | None:
    """Nothing where a word means more than is known here."""
    words, resource = list(command[1:]), command[0]
    name, namespace, everywhere = "", "default", False
    selectors: dict[str, str] = {}
    while words:
        match words.pop(0):
            case "-n" if words:
                namespace = words.pop(0)
            case "-A":
                everywhere = True
            case option if option in _OPTIONS and words:
                selectors[_OPTIONS[option]] = words.pop(0)
            case word if name or word.startswith("-"):
                return None
            case word:
                name = word
    if "," in resource or "/" in resource:
        return None
    return Wanted(resource, name, namespace, everywhere, selectors)


def path_of(wanted: Wanted, served: Served) -> str:
    place = "" if wanted.everywhere else f"/namespaces/{quote(wanted.namespace)}"
    path = f"{served.path}{place if served.is_namespaced else ''}/{served.resource}"
    path += f"/{quote(wanted.name)}" if wanted.name else ""
    return f"{path}?{urlencode(wanted.selectors)}" if wanted.selectors else path


def names(answers: Iterable[dict[str, Any]]) -> dict[str, Served]:
    """Every name that kubectl takes for a resource; the first group that has one keeps it."""
    found: dict[str, Served] = {}
    for group in (group for answer in answers for group in answer["items"]):
        named = group["metadata"].get("name", "")
        for version in group["versions"][:1]:
            root = f"/apis/{named}" if named else "/api"
            for each in version.get("resources", ()):
                served = Served(
                    f"{root}/{version['version']}", each["resource"], each["scope"] == "Namespaced"
                )
                singular = each.get("singularResource", "")
                for name in (each["resource"], singular, *each.get("shortNames", ())):
                    found.setdefault(name, served)
                    found.setdefault(f"{name}.{named}", served)
    return found


def as_kubectl_shows(found: dict[str, Any]) -> dict[str, Any]:
    """Items say what they are, and nobody sees who wrote which field."""
    if "items" not in found:
        found["metadata"].pop("managedFields", None)
        return found
    for item in found["items"]:
        item.setdefault("apiVersion", found["apiVersion"])
        item.setdefault("kind", found["kind"].removesuffix("List"))
        item["metadata"].pop("managedFields", None)
    return found
