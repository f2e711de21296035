"""Ports: free, different, and none that the system gives to clients."""

import socket
from pathlib import Path

from tools.cluster.processes import LOOPBACK, free_ports, is_free


def test_ports_are_different_and_not_the_systems_to_give() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    first_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(ports) < first_of_clients


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.create_server((LOOPBACK, free_ports(1)[0])) as server:
        assert not is_free(server.getsockname()[1])
