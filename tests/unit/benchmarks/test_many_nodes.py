"""How the benchmark of many nodes reads the audit log, and what it prints."""

import json
import os
import socket
from collections import Counter
from typing import Any

import pytest

from benchmarks._api_requests import count_by_verb, open_connections, read_requests
from benchmarks.many_nodes import ApiCost, main, rows

OURS = "measured-agent-"


def line(
    uri: str = "/api/v1/pods",
    verb: str = "list",
    user: str = f"{OURS}kwok-1",
    stage: str = "ResponseComplete",
) -> str:
    found: dict[str, Any] = {
        "verb": verb,
        "stage": stage,
        "requestURI": uri,
        "user": {"username": user},
        "objectRef": {"resource": "pods"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-11-19T20:00:00.500000Z",
    }
    return json.dumps(found) + "\n"


@pytest.mark.parametrize(
    ("query", "from_etcd"),
    [
        ("?limit=500&resourceVersion=0", False),
        ("?resourceVersion=77&resourceVersionMatch=NotOlderThan", False),
        ("", True),
        ("?limit=500", True),
        ("?limit=500&resourceVersion=77", True),
        ("?limit=500&continue=abc", True),
    ],
)
def test_which_lists_reach_etcd(query: str, from_etcd: bool) -> None:
    [found] = read_requests([line(f"/api/v1/pods{query}")], OURS)
    assert found.from_etcd is from_etcd
    assert (found.resource, found.code) == ("pods", 200)


def test_a_watch_counts_once_and_only_our_users_count() -> None:
    lines = [
        line("/api/v1/pods?watch=1", "watch", stage="ResponseStarted"),
        line("/api/v1/pods?watch=1", "watch"),
        line("/api/v1/nodes/a", "patch"),
        line(user="system:kube-scheduler"),
        line(f"/api/v1/namespaces/{OURS}x", user="kwok"),
        line("/api/v1/nodes/a", "patch").removesuffix("\n"),  # is just being written
    ]
    assert count_by_verb(read_requests(lines, OURS)) == {"watch": 1, "patch": 1}


def test_the_connections_of_a_process_to_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert open_connections(os.getpid(), port) == 0
        with (
            socket.create_connection(("127.0.0.1", port)),
            socket.create_connection(("127.0.0.1", port)),
        ):
            assert open_connections(os.getpid(), port) == 2
            assert open_connections(os.getpid(), port + 1) == 0


def test_what_all_agents_ask_is_extrapolated_and_said_so() -> None:
    cost = ApiCost(
        start=Counter(list=24, watch=24),
        steady=Counter(watch=12, patch=3),
        seconds=60.0,
        from_etcd=0,
        connections=(9, 8),
        agent_memory=34.56,
        manager=Counter(patch=5),
        manager_from_etcd=0,
        manager_memory=99.7,
        server_memory=(300.0, 310.0),
    )
    said = {row[:48].strip(): row[48:].split() for row in list(rows(cost, 1000, 2))[1:]}
    assert said["lists of agents that reach etcd"][0] == "0"
    assert said["connections of an agent, most"][0] == "9"
    assert said["requests of an agent at its start"] == ["24.0"]
    assert said["requests of an agent in a minute"] == ["7.5", "patch", "3,", "watch", "12"]
    assert said["requests a second of 1000 agents"] == ["125.0", "extrapolated"]
    assert said["connections of 1000 agents"] == ["8500", "extrapolated"]
    assert said["memory of the manager, MiB"][0] == "100"


def test_agents_are_on_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--nodes", "3", "--agents", "5"])
    assert ended.value.code == 2
    assert "--agents is 5, but must be 1 to --nodes, 3" in capsys.readouterr().err
