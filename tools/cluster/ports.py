"""Owns the choice of free ports on loopback.

Refuses ports from which the system itself chooses: a client that calls a server which is just being
restarted could be given the server's port as its own, and talk to itself.
"""

import random
import socket

LOOPBACK = "127.0.0.1"
#: Below net.ipv4.ip_local_port_range, which begins at 32768, and above what services are known by.
_RANGE = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """So many different ones that nobody listens on now."""
    candidates = random.SystemRandom().sample(_RANGE, len(_RANGE))
    free = (port for port in candidates if is_free(port))
    return [next(free) for _ in range(count)]


def is_free(port: int) -> bool:
    with socket.socket() as trial:
        # A port whose last connections are still fading away is free for a server.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
