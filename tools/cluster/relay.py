"""Carries TCP connections between this machine's loopback and a node's.

`python -m tools.cluster.relay PID RULE...`: the node is the network namespace of that process, a
rule is `in:ADDRESS:PORT=PORT` (who calls the address in the node reaches the port here) or
`out:PORT=PORT` (who calls the port here reaches the port in the node). So nothing has to listen
anywhere but on loopback, and the two networks stay apart.
"""

import ctypes
import os
import selectors
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tools.cluster.processes import LOOPBACK

_CLONE_NEWNET = 0x40000000
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Place:
    """A TCP address in one of the two networks; `network` is a namespace's open file."""

    network: int
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Rule:
    listening: Place
    calling: Place


def parse_rule(text: str, here: int, node: int) -> Rule:
    source, _, target = text.partition("=")
    direction, *place = source.split(":")
    if direction == "in":
        address, port = place
        return Rule(Place(node, address, int(port)), Place(here, LOOPBACK, int(target)))
    if direction == "out":
        [port] = place
        return Rule(Place(here, LOOPBACK, int(port)), Place(node, LOOPBACK, int(target)))
    raise ValueError(f"a rule begins with in: or out:, and {text!r} does not")


def enter(network: int) -> None:
    """This thread's sockets are made in that network from now on; those it has stay theirs."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def listen(place: Place) -> socket.socket:
    enter(place.network)
    return socket.create_server((place.address, place.port), backlog=128)


def serve(server: socket.socket, target: Place) -> None:
    while True:
        caller, _ = server.accept()
        threading.Thread(target=carry, args=(caller, target), daemon=True).start()


def carry(caller: socket.socket, target: Place) -> None:
    """One connection, until both sides have nothing more to say."""
    with caller, suppress(OSError):
        enter(target.network)
        with socket.create_connection((target.address, target.port)) as called:
            pump(caller, called)


def pump(one: socket.socket, other: socket.socket) -> None:
    """An end of one direction is passed on as such: the other may go on."""
    across = {one: other, other: one}
    with selectors.DefaultSelector() as selector:
        for side in across:
            selector.register(side, selectors.EVENT_READ)
        while selector.get_map():
            for event, _ in selector.select():
                side = one if event.fileobj is one else other
                data = side.recv(_CHUNK)
                if data:
                    across[side].sendall(data)
                else:
                    selector.unregister(side)
                    across[side].shutdown(socket.SHUT_WR)


def main(arguments: Sequence[str]) -> int:
    pid, *rules = arguments
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    node = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    for rule in [parse_rule(text, here, node) for text in rules]:
        server = listen(rule.listening)
        threading.Thread(target=serve, args=(server, rule.calling), daemon=True).start()
    enter(here)
    print("relaying", flush=True)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
