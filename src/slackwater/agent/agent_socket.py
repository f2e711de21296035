"""Where an agent's unix socket is: in its state folder, which one agent at a time holds."""

import os

FILE = "agent.sock"
#: unix(7): sun_path has 108 bytes, and the last one is zero.
LONGEST_PATH = 107


def socket_path(state: str) -> str:
    return os.path.join(state, FILE)


def path_problem(path: str) -> str:
    """Why no unix socket can be at the path, as one sentence; empty if one can."""
    length = len(os.fsencode(path))
    if length <= LONGEST_PATH:
        return ""
    return f"the path of the socket {path} has {length} bytes; it may have {LONGEST_PATH}"
