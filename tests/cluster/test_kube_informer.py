"""The informer's conformance tests against the real API server."""

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.kube_world import RealWorld, watching, world_in
from tests.unit.kube.informer_conformance import *  # noqa: F403 - its tests run here
from tests.unit.kube.informer_world import Watched
from tools.cluster.control_plane import ControlPlane


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str) -> Iterator[RealWorld]:
    with world_in(control_plane, namespace) as made:
        yield made


@pytest.fixture
def watch(world: RealWorld) -> Iterator[Callable[..., Watched]]:
    with watching(world) as make:
        yield make


def test_a_long_life_is_one_list_and_few_watches(
    world: RealWorld, watch: Callable[..., Watched]
) -> None:
    """By the server's own account."""
    watched = watch()
    assert watched.informer.wait_synced(300)
    for number in range(50):
        world.put("a", str(number))
    watched.reaches({"a": "49"})
    verbs = [line["verb"] for line in world.audited()]
    assert sorted(verbs) == ["list", "watch"]


def test_pages_are_one_list(world: RealWorld) -> None:
    """Thirty objects in pages of seven, each once."""
    from slackwater.contract.resources import CONFIG_MAPS
    from tests.unit.kube.informer_world import read_text

    for number in range(30):
        world.put(f"m{number:02}", str(number + 1))
    client = world.client()
    found = client.list(CONFIG_MAPS, read_text, namespace=world.namespace, page=7)
    client.close()
    assert [text for text in found.items if text] == [str(n + 1) for n in range(30)]
    assert found.version.isdigit()
    assert len(world.audited()) == 5
