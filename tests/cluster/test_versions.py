"""That the API server is of the version that its stage names, and how it answers what agents ask.

`make versions` runs this file, and others that ask API servers, with the oldest Kubernetes that
docs/install.md promises; `make test` runs it with the newest.
"""

import json
import random
import re

import msgspec

from slackwater.contract.resources import EVENTS, PODS, ObjectSelector
from slackwater.kube.client import Client
from slackwater.kube.informer import Informer
from slackwater.runtime.loop import monotonic_now
from tests.cluster.chart import OTHER, OWN, node, pod
from tests.cluster.kube_world import access_of
from tests.cluster.kubernetes_version import VERSION
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

#: Informers: if each asked etcd once, the server's own questions could not be taken for it.
MANY = 20


class PodName(msgspec.Struct, frozen=True):
    """What an informer keeps of an object here."""

    name: str
    uid: str


def read_name(raw: msgspec.Raw) -> PodName:
    metadata = json.loads(bytes(raw))["metadata"]
    return PodName(metadata["name"], metadata["uid"])


def lists_from_etcd(plane: ControlPlane, resource: str) -> int:
    """By the API server's own account."""
    page = plane.kubectl("get", "--raw", "/metrics")
    rows = re.findall(r"^apiserver_storage_list_total\{([^}]*)\} (\S+)$", page, re.MULTILINE)
    return sum(int(float(count)) for labels, count in rows if f'resource="{resource}"' in labels)


def test_the_api_server_is_of_the_version_that_its_stage_names(
    fragile: ControlPlane,
) -> None:
    said = Client(access_of(fragile), "slackwater-test").get_raw("/version")
    assert json.loads(said)["gitVersion"] == VERSION


def test_an_agents_lists_and_watches_are_answered_from_memory(
    fragile: ControlPlane,
) -> None:
    """Of the pods of one node among two: nothing of it reaches etcd, and a new pod is seen."""
    plane = fragile
    account = {"name": "default", "namespace": "default"}
    plane.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}, node(OWN), node(OTHER)
    )
    plane.create(pod("mine", "default", OWN), pod("theirs", "default", OTHER))
    client = Client(access_of(plane), "slackwater-test")
    on_own = ObjectSelector(fields=f"spec.nodeName={OWN}")
    before, events = lists_from_etcd(plane, "pods"), lists_from_etcd(plane, "events")
    informers = [
        Informer(
            client,
            PODS,
            read_name,
            clock=monotonic_now,
            selector=on_own,
            jitter=random.Random(seed),  # noqa: S311
        )
        for seed in range(MANY)
    ]
    try:
        for each in informers:
            each.start()
        assert all(each.wait_synced(300) for each in informers)
        assert {n.name for each in informers for n in each.view().items.values()} == {"mine"}
        plane.create(pod("late", "default", OWN))
        wait_for("the new pod", lambda: all(len(each.view().items) == 2 for each in informers))
    finally:
        for each in informers:
            each.stop()
    # Not "none": newer versions compare their memory with etcd now and then, for themselves.
    assert lists_from_etcd(plane, "pods") - before < MANY
    for _ in range(MANY):  # of which no version keeps any in memory: the counter counts
        client.list(EVENTS, read_name)
    assert lists_from_etcd(plane, "events") - events >= MANY
