"""An API server that serves lists of any kind, over a real socket, and counts what was asked."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from slackwater.kube.client import Client
from tests.unit.contract.served import Object
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import ByteServer, Request, Wire
from tests.unit.kube.fake_api import status

_PLURALS = {
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets",
}


class ServedApi:
    """`refusals`: by plural, an HTTP status instead of a list."""

    def __init__(self, *objects: Object) -> None:
        self.objects = list(objects)
        self.refusals: dict[str, int] = {}
        self.server = ByteServer(self._answer)
        self.client: Client = plain_client(self.server.port)

    def asked(self) -> Counter[str]:
        """How often, by path."""
        return Counter(each.path for each in self.server.requests)

    def close(self) -> None:
        self.client.close()
        self.server.close()

    def _answer(self, request: Request, wire: Wire) -> None:
        namespace, plural = request.path.split("/")[-2:]
        if code := self.refusals.get(plural):
            wire.json(status(code, "Forbidden", f"cannot list resource {plural}"), code)
            return
        items = [
            each
            for each in self.objects
            if _PLURALS[each["kind"]] == plural and each["metadata"]["namespace"] == namespace
        ]
        wire.json({"kind": "List", "metadata": {"resourceVersion": "9"}, "items": items})


@contextmanager
def serving(*objects: Object) -> Iterator[ServedApi]:
    api = ServedApi(*objects)
    try:
        yield api
    finally:
        api.close()
