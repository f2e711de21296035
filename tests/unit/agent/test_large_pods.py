"""What an agent costs, itself and its API server, whatever tenants write."""

import contextlib
from pathlib import Path

import pytest

from tests.unit.agent.large_pods import LargePods, peak_memory, running_agent
from tests.unit.kube.byte_server import eventually, serving

pytestmark = pytest.mark.long

MOST_MIB = 64
#: What agents list and watch: kinds, of which two ConfigMaps.
WATCHED = 12
#: Connections that are kept for all other requests.
MOST_IDLE = 2


def test_large_pods_do_not_fill_the_memory(tmp_path: Path) -> None:
    """112 MB in two lists, and as much in events."""
    assert peak_memory(tmp_path, pods=40, size=1_400_000) <= MOST_MIB


def test_lists_come_from_the_servers_memory_and_connections_are_shared(tmp_path: Path) -> None:
    """No list reaches etcd, at the start or after a watch that was forgotten; and there is a
    connection for each watch, and few for all the rest."""
    api = LargePods(pods=2, size=100)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(api.answer))
        stack.enter_context(running_agent(tmp_path, server.port))
        assert api.read.wait()

        def watches() -> int:
            return len({(one.path, one.query.get("fieldSelector")) for one in api.watches()})

        eventually("all watches", lambda: watches() == WATCHED)
        eventually("few connections", lambda: server.open_connections() <= WATCHED + MOST_IDLE)
        versions = [one.query.get("resourceVersion") for one in api.lists()]
    assert len(versions) >= WATCHED
    assert None not in versions
