"""A bare server that replays a recording: `python -m benchmarks._watch_replay FILE PODS EVENTS`.

Prints its port. It says what the API server said, in the same chunks, with a number of its own for
each copy of a pod; it looks at nothing of a request but whether it is a watch and which page. The
first watch brings all events and ends; later ones are silent.
"""

import contextlib
import re
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks._watch_recording import PAGE, STEM, WIDTH, Recording

_NAME = re.compile(rb"%b(\d{%d})" % (STEM.encode(), WIDTH))
_META = re.compile(rb'"metadata":\{"resourceVersion":"(\d+)"[^}]*\}')
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def renumbered(content: bytes, offset: int) -> bytes:
    """The same bytes, with other pods."""
    return _NAME.sub(
        lambda found: b"%b%0*d" % (STEM.encode(), WIDTH, int(found[1]) + offset), content
    )


def framed(chunk: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(chunk), chunk)


class Replay:
    """Pages are made before anybody asks: the server is never the limit."""

    def __init__(self, recording: Recording, pods: int, events: int) -> None:
        self._recording = recording
        self._events = events
        self._told = threading.Event()
        self._pages = [self._page(start, pods) for start in range(0, pods, PAGE)]

    def page(self, number: int) -> bytes:
        return self._pages[number]

    def watch(self) -> Iterator[bytes]:
        """Each recorded event in turn, of each copy of its pod; several chunks in one write."""
        if self._told.is_set():
            return
        self._told.set()
        left, copies = self._events, len(self._pages)
        for copy in range(copies):
            for chunk in self._recording.events:
                if not left:
                    return
                left -= 1
                yield framed(renumbered_event(chunk, copy * PAGE))

    def _page(self, start: int, pods: int) -> bytes:
        last = start + PAGE >= pods
        following = b"" if last else b',"continue":"page-%06d"' % (start // PAGE + 1)
        chunks = []
        for place, chunk in enumerate(self._recording.page):
            if not place:
                told = rb'"metadata":{"resourceVersion":"\1"%b}' % following
                chunk = _META.sub(told, chunk, count=1)
            chunks.append(framed(renumbered(chunk, start)))
        return b"".join([HEAD, *chunks, END])


def renumbered_event(chunk: bytes, offset: int) -> bytes:
    """An event is about one pod: its name is looked for once."""
    found = _NAME.search(chunk)
    if found is None or not offset:
        return chunk
    return chunk.replace(found[0], b"%b%0*d" % (STEM.encode(), WIDTH, int(found[1]) + offset))


def serve(connection: socket.socket, replay: Replay) -> None:
    with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
        while line := stream.readline():
            while stream.readline().strip():
                pass
            if b"watch=" in line:
                connection.sendall(HEAD)
                for chunk in replay.watch():
                    connection.sendall(chunk)
                connection.sendall(END)
            else:
                asked = re.search(rb"continue=page-(\d+)", line)
                connection.sendall(replay.page(int(asked[1]) if asked else 0))


def main(path: str, pods: str, events: str) -> None:
    recording = msgspec.msgpack.decode(Path(path).read_bytes(), type=Recording)
    replay = Replay(recording, int(pods), int(events))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, replay), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
