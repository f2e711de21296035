"""A small real HTTP server with recorded answers, on TCP as an API server or on a unix socket as an
agent, and the command line beside it.
"""

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import ThreadingUnixStreamServer

import msgspec

from slackwater.agent.agent_socket import socket_path
from tests.unit.cli.in_process import run_command

Reply = Callable[[str], tuple[int, bytes]]


class Served:
    """Where it listens, and what it was asked."""

    def __init__(self, reply: Reply, socket: str = "") -> None:
        self.asked: list[str] = []
        self.reply = reply
        outer = self

        class Exchange(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, body = outer.reply(self.path)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server: ThreadingHTTPServer | ThreadingUnixStreamServer
        if socket:
            self.server = ThreadingUnixStreamServer(socket, Exchange)
            self.address = socket
        else:
            self.server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
            self.address = f"127.0.0.1:{self.server.server_address[1]}"


@contextlib.contextmanager
def served_agent(reply: Reply) -> Iterator[Served]:
    """In a folder of its own, as an agent's state folder has it."""
    with tempfile.TemporaryDirectory() as folder, served(reply, socket_path(folder)) as made:
        yield made


@contextlib.contextmanager
def served(reply: Reply, socket: str = "") -> Iterator[Served]:
    made = Served(reply, socket)
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


def always(value: object, status: int = 200) -> Reply:
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return lambda _path: (status, body)


def slackwater(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SLACKWATER_")}
    return run_command(*arguments, environ=clean | environ)
