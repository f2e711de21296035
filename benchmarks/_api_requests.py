"""What the API server's audit log says that one kind of client asked, and what its sockets say.

Owns the counting. Nothing here asks the API server: a question would be counted, too.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.cluster.managers import received_at

#: In /proc/PID/net/tcp: a connection that is open.
_ESTABLISHED = "01"


class ApiRequest(msgspec.Struct, frozen=True):
    """One request. `from_etcd` is a list that the API server may not answer from its memory: it
    names no resourceVersion, or asks for pages of another one than 0."""

    user: str
    verb: str
    resource: str
    at: float
    code: int
    from_etcd: bool


def read_requests(lines: Iterable[str], user_prefix: str) -> Iterator[ApiRequest]:
    """Of the users with that prefix. The log has a line for the begin and one for the end of a
    watch: it counts when it begins. Lines of others are not decoded: there are very many."""
    for line in lines:
        if user_prefix not in line or not line.endswith("\n"):
            continue
        found = json.loads(line)
        user = found.get("user", {}).get("username", "")
        is_end = found["verb"] == "watch" and found["stage"] == "ResponseComplete"
        if user.startswith(user_prefix) and not is_end:
            yield _request(user, found)


def _request(user: str, line: dict[str, Any]) -> ApiRequest:
    query = parse_qs(urlsplit(line["requestURI"]).query)
    version = query.get("resourceVersion", [""])[0]
    from_memory = version == "0" or (version != "" and "limit" not in query)
    return ApiRequest(
        user=user,
        verb=line["verb"],
        resource=line.get("objectRef", {}).get("resource", ""),
        at=received_at(line),
        code=line.get("responseStatus", {}).get("code", 0),
        from_etcd=line["verb"] == "list" and not from_memory,
    )


def count_by_verb(requests: Iterable[ApiRequest]) -> Counter[str]:
    return Counter(each.verb for each in requests)


def open_connections(pid: int, port: int, proc: Path = Path("/proc")) -> int:
    """TCP connections of the process to that port."""
    table = (proc / str(pid) / "net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in table]
    to_port = {
        row[9] for row in rows if row[3] == _ESTABLISHED and int(row[2].split(":")[1], 16) == port
    }
    return len(to_port & set(_sockets(proc / str(pid) / "fd")))


def _sockets(folder: Path) -> Iterator[str]:
    """Inodes."""
    for entry in folder.iterdir():
        try:
            target = os.readlink(entry)
        except OSError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            yield target.removeprefix("socket:[").removesuffix("]")
