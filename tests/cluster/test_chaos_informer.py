"""The informer while the real API server, or the informer's own process, comes to harm.

Each time it converges to the server's truth, and the number of requests stays bounded: by our own
count of attempts where the server could not count, by its audit log where it could. A control plane
of its own: its API server is killed and paused here.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.contract.resources import CONFIG_MAPS
from slackwater.kube.client import Client
from slackwater.kube.credentials.discovery import in_cluster
from slackwater.kube.informer import Informer, WatchPace
from slackwater.model.gap import Gap
from tests.cluster.kube_world import RealWorld, watching
from tests.unit.kube.byte_server import eventually
from tests.unit.kube.informer_world import Watched, chance, now, read_text
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

API_SERVER = "kube-apiserver"
Watch = Callable[..., Watched]


@pytest.fixture
def world(fragile: ControlPlane) -> Iterator[RealWorld]:
    name = f"chaos-{uuid.uuid4().hex[:8]}"
    fragile.kubectl("create", "namespace", name)
    made = RealWorld(fragile, name)
    yield made
    made.close()


@pytest.fixture
def watch(world: RealWorld) -> Iterator[Watch]:
    with watching(world) as make:
        yield make


def rest(seconds: float) -> None:
    """Time that has to pass while nothing is there to be waited for."""
    end = time.monotonic() + seconds
    eventually("the end of a rest", lambda: time.monotonic() > end)


def test_kill_9_of_the_api_server_during_a_watch(
    fragile: ControlPlane, world: RealWorld, watch: Watch
) -> None:
    world.put("a", "1")
    world.put("b", "1")
    # As in production: half a second at first, then twice as long each time.
    watched = watch(
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=60.0,
            silence=10.0,
            first_wait=0.5,
            longest_wait=4.0,
        )
    )
    assert watched.informer.wait_synced(300)
    before, calls = world.attempts(), watched.calls
    fragile.kill(API_SERVER)
    watched.has_problem("https://127.0.0.1")
    rest(5.0)
    view = watched.informer.view()
    assert watched.items() == {"a": "1", "b": "1"}, "the last good objects stay"
    assert view.synced
    assert now() - view.heard_at > 4_000_000, "and their age is seen"
    # Pauses of 0.25, 0.5, 1, 2, 2 s at least: no more attempts than this.
    assert world.attempts() - before <= 6
    assert watched.calls - calls <= 3
    fragile.start(API_SERVER)
    world.put("a", "2")
    world.delete("b")
    world.put("c", "3")
    watched.converges()
    watched.is_well()
    assert watched.items() == {"a": "2", "c": "3"}


def test_many_informers_come_back_without_a_storm(
    fragile: ControlPlane, world: RealWorld, watch: Watch
) -> None:
    """Thirty at once: each asks a few times, and not all in the same moment."""
    world.put("a", "1")
    pace = WatchPace(
        start_spread=0.0,
        reopen_spread=0.0,
        watch=60.0,
        silence=10.0,
        first_wait=0.5,
        longest_wait=4.0,
    )
    crowd = [watch(pace=pace) for _ in range(30)]
    for watched in crowd:
        assert watched.informer.wait_synced(300)
    fragile.kill(API_SERVER)
    rest(3.0)
    asked = len(world.audited())
    fragile.start(API_SERVER)
    world.put("a", "2")
    for watched in crowd:
        watched.reaches({"a": "2"})
        watched.is_well()
    again = world.audited()[asked:]
    # At most: a watch while the server was not ready, one that is too old, a list, a watch.
    assert len(again) <= 4 * len(crowd)
    assert len({line["requestReceivedTimestamp"][:21] for line in again}) > 3, "tenths of a second"


def test_a_paused_api_server(fragile: ControlPlane, world: RealWorld, watch: Watch) -> None:
    """It keeps its connections and says nothing: only the watchdog notices."""
    world.put("a", "1")
    watched = watch(
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=60.0,
            silence=1.5,
            first_wait=0.2,
            longest_wait=1.0,
        )
    )
    assert watched.informer.wait_synced(300)
    before = world.attempts()
    fragile.pause(API_SERVER)
    try:
        watched.has_problem("no")
        rest(4.0)
        assert watched.items() == {"a": "1"}
        assert world.attempts() - before <= 8
    finally:
        fragile.resume(API_SERVER)
    wait_for("the API server", lambda: fragile.ready(API_SERVER))
    world.put("a", "2")
    watched.converges()
    watched.is_well()


def restart(fragile: ControlPlane) -> None:
    fragile.kill(API_SERVER)
    fragile.start(API_SERVER)


class Child:
    """An informer in its own process."""

    def __init__(self, world: RealWorld) -> None:
        command = [sys.executable, "-m", "tests.cluster.informer_process"]
        command += [str(world.control_plane.kubeconfig()), world.namespace, world.user_agent]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.known: dict[str, str] | None = None
        self.lines = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.known = json.loads(line)
            self.lines += 1

    def reaches(self, wanted: dict[str, str]) -> None:
        eventually("the truth in the child", lambda: self.known == wanted)

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.resume()
        self._process.kill()
        self._process.wait(10)
        self._thread.join(10)
        if self._process.stdout is not None:
            self._process.stdout.close()


@pytest.fixture
def child(world: RealWorld) -> Iterator[Child]:
    made = Child(world)
    yield made
    made.close()


def test_a_paused_informer(world: RealWorld, child: Child) -> None:
    """Three hundred changes behind its back; it hears them all, or their sum."""
    world.put("a", "1")
    world.put("gone", "1")
    child.reaches({"a": "1", "gone": "1"})
    child.pause()
    for number in range(300):
        world.put("a", str(number))
    world.delete("gone")
    child.resume()
    child.reaches({"a": "299"})
    assert child.known == world.truth()
    assert len(world.audited()) <= 4


def test_a_version_that_the_server_has_forgotten(
    fragile: ControlPlane, world: RealWorld, child: Child
) -> None:
    """410: a new API server begins its history when it starts. What was deleted meanwhile was
    never told as deleted, and is gone all the same."""
    for name in ("a", "b", "gone"):
        world.put(name, "1")
    child.reaches({"a": "1", "b": "1", "gone": "1"})
    child.pause()
    restart(fragile)  # the old watch is dead: of what follows nothing lies in its buffer
    world.delete("gone")
    world.put("b", "2")
    world.put("c", "3")
    restart(fragile)
    child.resume()
    child.reaches({"a": "1", "b": "2", "c": "3"})
    assert child.known == world.truth()
    verbs = [line["verb"] for line in world.audited()]
    assert verbs.count("list") == 2, "one at the start, one after the 410"
    assert verbs.count("watch") <= 5


def test_an_expired_token(fragile: ControlPlane, world: RealWorld, tmp_path: Path) -> None:
    """A pod's token that the server no longer takes: the file's new one is used at once.

    A token is bound to a Secret and dies with it; the real ones die of age after ten minutes at
    least. The server believes a token that it has seen for ten seconds more.
    """
    world.put("a", "1")
    let_read(fragile, world)
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    ca.write_bytes(fragile.authority.certificate.read_bytes())
    token.write_text(bound_token(fragile, world, "first"))
    access = in_cluster(service_variables(fragile), str(tmp_path))
    assert not isinstance(access, Gap)
    informer = Informer(
        Client(access, world.user_agent, timeout=3.0),
        CONFIG_MAPS,
        read_text,
        clock=now,
        namespace=world.namespace,
        jitter=chance(),
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=1.0,
            silence=5.0,
            first_wait=0.2,
            longest_wait=2.0,
        ),
    )
    informer.start()
    try:
        assert informer.wait_synced(300), informer.view().problem
        fragile.kubectl("delete", "secret", "first", "-n", world.namespace)
        eventually("the refusal", lambda: "401" in informer.view().problem)
        assert informer.view().items[f"{world.namespace}/a"] == "1"
        refused = [one for one in world.audited() if _code(one) == 401]
        assert 1 <= len(refused) <= 10
        token.write_text(bound_token(fragile, world, "second"))
        eventually("the end of it", lambda: not informer.view().problem)
        world.put("a", "2")
        eventually("the news", lambda: informer.view().items[f"{world.namespace}/a"] == "2")
    finally:
        informer.stop()


def test_a_token_that_is_replaced_in_time_is_never_refused(
    fragile: ControlPlane, world: RealWorld, tmp_path: Path
) -> None:
    """The kubelet's way: the file changes before the old token ends."""
    ca = fragile.authority.certificate.read_bytes()
    (tmp_path / "ca.crt").write_bytes(ca)
    let_read(fragile, world)
    tokens = {}
    for name in ("one", "two"):
        tokens[name] = bound_token(fragile, world, name)
    (tmp_path / "token").write_text(tokens["one"])
    access = in_cluster(service_variables(fragile), str(tmp_path))
    assert not isinstance(access, Gap)
    client = Client(access, world.user_agent, timeout=3.0)
    client.list(CONFIG_MAPS, read_text, namespace=world.namespace)
    (tmp_path / "token.new").write_text(tokens["two"])
    (tmp_path / "token.new").rename(tmp_path / "token")
    fragile.kubectl("delete", "secret", "one", "-n", world.namespace)
    client.list(CONFIG_MAPS, read_text, namespace=world.namespace)
    client.close()
    assert [_code(one) for one in world.audited()] == [200, 200]


def let_read(fragile: ControlPlane, world: RealWorld) -> None:
    place = ("-n", world.namespace)
    fragile.kubectl("create", "serviceaccount", "reader", *place)
    verbs = ("--verb=get,list,watch", "--resource=configmaps")
    fragile.kubectl("create", "role", "reading", *verbs, *place)
    account = f"--serviceaccount={world.namespace}:reader"
    fragile.kubectl("create", "rolebinding", "reading", "--role=reading", account, *place)


def service_variables(fragile: ControlPlane) -> dict[str, str]:
    host, _, port = fragile.server.removeprefix("https://").partition(":")
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def bound_token(fragile: ControlPlane, world: RealWorld, secret: str) -> str:
    fragile.kubectl("create", "secret", "generic", secret, "-n", world.namespace)
    command = ["create", "token", "reader", "-n", world.namespace]
    command += ["--bound-object-kind=Secret", f"--bound-object-name={secret}"]
    return fragile.kubectl(*command).strip()


def _code(line: dict[str, object]) -> int:
    status = line.get("responseStatus") or {}
    assert isinstance(status, dict)
    return int(status.get("code", 0))
