"""Our client in a process of its own: `python -m benchmarks._watch_ours PORT PODS EVENTS`.

An informer as our programs run it, with the fields of a pod that a cluster program needs. Prints
one line of JSON: seconds and peak memory of the list, then of the watch.
"""

import random
import sys
import threading
import time

import msgspec

from slackwater.contract.resources import PODS
from slackwater.http.endpoint import Identity, Server, Trust
from slackwater.kube.access import Access, FixedCredentials
from slackwater.kube.client import Client
from slackwater.kube.informer import Informer
from slackwater.model.units import Micros

PATIENCE = 600.0


class Amounts(msgspec.Struct, gc=False):
    cpu: str = ""
    memory: str = ""


NOTHING = Amounts()


class Resources(msgspec.Struct):
    requests: Amounts | None = None
    limits: Amounts | None = None


class Container(msgspec.Struct):
    name: str
    resources: Resources | None = None


class Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Spec(msgspec.Struct, rename="camel"):
    containers: list[Container]
    node_name: str = ""
    priority: int | None = None


class State(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    qos_class: str = ""


class Pod(msgspec.Struct):
    metadata: Meta
    spec: Spec
    status: State


class Counter:
    """Rings when the objects and all events are there."""

    def __init__(self) -> None:
        self.count = 0
        self.wanted = -1
        self.done = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.wanted:
            self.done.set()


def peak() -> float:
    """MiB, the largest so far."""
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) / 1024


def main(port: str, pods: str, events: str) -> None:
    counter = Counter()
    counter.wanted = 1 + int(events)
    access = Access(Server("127.0.0.1", int(port), "http"), Trust(), FixedCredentials(Identity()))
    informer = Informer(
        Client(access, "slackwater-benchmark/1"),
        PODS,
        msgspec.json.Decoder(Pod).decode,
        clock=lambda: Micros(time.monotonic_ns() // 1000),
        changed=counter,
        jitter=random.Random(1),  # noqa: S311 - no secret
    )
    began, busy = time.perf_counter(), time.process_time()
    informer.start()
    informer.wait_synced(PATIENCE)
    listed, after_list, list_cpu = time.perf_counter(), peak(), time.process_time()
    if not counter.done.wait(PATIENCE):
        sys.exit(f"{counter.count} of {counter.wanted} changes came: {informer.view().problem}")
    ended = time.perf_counter()
    view = informer.view()
    if len(view.items) != int(pods) or view.unreadable:
        sys.exit(f"{len(view.items)} pods, {len(view.unreadable)} of them unreadable")
    told = {
        "list_seconds": listed - began,
        "list_peak": after_list,
        "watch_seconds": ended - listed,
        "watch_peak": peak(),
        "list_cpu": list_cpu - busy,
        "watch_cpu": time.process_time() - list_cpu,
        "pods": len(view.items),
        "events": counter.count - 1,
    }
    print(msgspec.json.encode(told).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
