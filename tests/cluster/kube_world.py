"""The informer's world on a real API server: one namespace of ConfigMaps."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from slackwater.contract.resources import CONFIG_MAPS, Resource
from slackwater.kube.access import Access
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.kube.credentials.discovery import find_access
from slackwater.model.gap import Gap
from tests.unit.kube.informer_world import Watched
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

AGENT = "slackwater-test/1.0"


def access_of(control_plane: ControlPlane, user: str = "admin") -> Access:
    access = find_access({}, str(control_plane.kubeconfig(user)))
    assert not isinstance(access, Gap), access.reason
    return access


def serves(client: Client, resource: Resource) -> bool:
    """Whether the server knows this kind, from the list of kinds of its group."""
    try:
        kinds = msgspec.json.decode(client.get_raw(resource.root))["resources"] or ()
    except HttpStatusError as refused:
        if refused.status == 404:
            return False
        raise
    return any(kind["name"] == resource.plural for kind in kinds)


class CountingClient(Client):
    """Counts attempts, also those that reached nobody."""

    def __init__(self, access: Access, user_agent: str, timeout: float) -> None:
        super().__init__(access, user_agent, timeout)
        self.attempts = 0

    def list(self, *args: Any, **options: Any) -> Any:
        self.attempts += 1
        return super().list(*args, **options)

    def watch(self, *args: Any, **options: Any) -> Any:
        self.attempts += 1
        return super().watch(*args, **options)


class RealWorld:
    """Its clients have a user agent of their own, by which the audit log tells them apart."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.user_agent = f"{namespace}/1.0"
        self.clients: list[CountingClient] = []
        self._admin = Client(access_of(control_plane), AGENT)

    def client(self) -> Client:
        access = access_of(self.control_plane)
        self.clients.append(CountingClient(access, self.user_agent, timeout=3.0))
        return self.clients[-1]

    def put(self, name: str, text: str) -> None:
        self._admin.apply(
            CONFIG_MAPS, name, {"data": {"x": text}}, manager="test", namespace=self.namespace
        )

    def delete(self, name: str) -> None:
        self._admin.delete(CONFIG_MAPS, name, self.namespace)

    def truth(self) -> dict[str, str]:
        """By another way than ours."""
        found = self.control_plane.get("configmaps", "-n", self.namespace)["items"]
        texts = {one["metadata"]["name"]: one.get("data", {}).get("x") for one in found}
        return {name: text for name, text in texts.items() if text}

    def attempts(self) -> int:
        return sum(client.attempts for client in self.clients)

    def audited(self) -> list[dict[str, Any]]:
        """What our informers asked, by the server's own account, each request once."""
        found: dict[str, dict[str, Any]] = {}
        for line in self.control_plane.audit():
            if line.get("userAgent") == self.user_agent:
                found[line["auditID"]] = line
        return list(found.values())

    def close(self) -> None:
        self._admin.close()


@contextlib.contextmanager
def world_in(control_plane: ControlPlane, namespace: str) -> Iterator[RealWorld]:
    """With the ConfigMap that comes by itself already there: it would be news otherwise."""
    wait_for(
        "the ConfigMap of every namespace",
        lambda: control_plane.get("configmaps", "-n", namespace)["items"],
    )
    world = RealWorld(control_plane, namespace)
    try:
        yield world
    finally:
        world.close()


@contextlib.contextmanager
def watching(world: RealWorld) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(**options: Any) -> Watched:
        made.append(Watched(world, **options))
        return made[-1]

    try:
        yield make
    finally:
        for watched in made:
            watched.informer.stop()
