"""One real cluster for the session, on loopback; further control planes where a test breaks one.

`control_plane` and `node` are shared: a test works in a `namespace` of its own, and leaves programs
running that it found running. Whoever ends an API server has one of its file's own, `fragile`.
Whoever needs a new cluster makes a control plane with `make_control_plane`, and so does whoever
wants many nodes, with `play_nodes`. Tests that use `node` are marked so, and run in a stage of
their own.
"""

import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tools.cluster import CONTROL_PLANE_PROGRAMS, MANY_NODES_PROGRAMS, NODE_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.many_nodes import ManyNodes
from tools.cluster.node import Node
from tools.cluster.places import first_free, sweep_dead
from tools.cluster.processes import find_programs
from tools.provision import cache_folder

API_SERVER = "kube-apiserver"
_SERVER = ("etcd", API_SERVER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "node" in getattr(item, "fixturenames", ()):
            item.add_marker("node")


@pytest.fixture(scope="session")
def programs() -> dict[str, Path]:
    """By name; the stage names them by variables, a person's own run takes the cache."""
    return find_programs(CONTROL_PLANE_PROGRAMS, os.environ)


@pytest.fixture(scope="session")
def make_folder(request: pytest.FixtureRequest) -> Iterator[Callable[[], Path]]:
    """Folders that go with the session; what killed sessions left goes before it."""
    clusters = cache_folder(os.environ) / "clusters"
    sweep_dead(clusters)
    made: list[Path] = []
    with ExitStack() as owned:

        def make() -> Path:
            made.append(owned.enter_context(first_free(clusters, "test")))
            return made[-1]

        yield make
        if request.session.testsfailed:
            kept = tempfile.mkdtemp(prefix="slackwater-cluster-logs-")
            for folder in made:
                shutil.copytree(folder / "logs", Path(kept, folder.name))
            print(f"logs of the clusters: {kept}", file=sys.stderr)


@pytest.fixture(scope="session")
def control_plane(
    programs: dict[str, Path], make_folder: Callable[[], Path]
) -> Iterator[ControlPlane]:
    made = ControlPlane(make_folder(), programs)
    try:
        made.open()
        yield made
    finally:
        made.close()


@pytest.fixture
def make_control_plane(
    programs: dict[str, Path], make_folder: Callable[[], Path]
) -> Iterator[Callable[[], ControlPlane]]:
    """Open ones, closed with the test."""
    made: list[ControlPlane] = []

    def make() -> ControlPlane:
        made.append(ControlPlane(make_folder(), programs))
        made[-1].open()
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def own_server(
    programs: dict[str, Path], make_folder: Callable[[], Path]
) -> Iterator[ControlPlane]:
    """For the tests of one file, which may end it. No controllers: they take their time after an
    outage, and some CPU before."""
    made = ControlPlane(make_folder(), programs)
    try:
        for program in _SERVER:
            made.start(program)
        yield made
    finally:
        made.close()


@pytest.fixture
def fragile(own_server: ControlPlane) -> ControlPlane:
    """The same, running, whatever an earlier test did to it."""
    if not own_server.ready(API_SERVER):
        own_server.start(API_SERVER)
    return own_server


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A new one, in which pods can be created; it goes with the test."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    control_plane.kubectl("create", "namespace", name)
    control_plane.await_service_account(name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def node(control_plane: ControlPlane) -> Iterator[Node]:
    made = Node(control_plane, find_programs(NODE_PROGRAMS, os.environ))
    try:
        made.open()
        yield made
    finally:
        made.close()


@pytest.fixture
def play_nodes() -> Iterator[Callable[[ControlPlane, int], ManyNodes]]:
    """So many nodes on paper, Ready. The scheduler likes them: not for the shared control plane."""
    made: list[ManyNodes] = []

    def play(plane: ControlPlane, count: int) -> ManyNodes:
        kwok = find_programs(MANY_NODES_PROGRAMS, os.environ)["kwok"]
        made.append(ManyNodes(plane, kwok))
        made[-1].open(count)
        return made[-1]

    yield play
    for each in made:
        each.close()
