"""The latency-sensitive service, as a program: a small HTTP server with real work per request.

One process, one request at a time, like one worker of a real service; other requests wait in the
socket's queue. It ends when its standard input does, so that it never outlives the demo.
"""

import hashlib
import json
import os
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

_ROWS = [{"id": number, "name": f"row {number}", "price": number * 1.25} for number in range(20)]
_ENOUGH = 0.02


def work(rounds: int) -> str:
    """What a request costs: an answer built, encoded and signed."""
    digest = b""
    for turn in range(rounds):
        document = json.dumps({"turn": turn, "rows": _ROWS}).encode()
        digest = hashlib.sha256(digest + document).digest()
    return digest.hex()


def rounds_for(seconds: float) -> int:
    """How many rounds take that much CPU time here, by the process's own CPU clock, so that other
    processes do not count."""
    rounds = 1
    while True:
        before = time.process_time()
        work(rounds)
        took = time.process_time() - before
        if took >= _ENOUGH:
            return max(round(rounds * seconds / took), 1)
        rounds *= 2


class _Server(socketserver.TCPServer):
    """Not HTTPServer, which asks the resolver for its own name."""

    allow_reuse_address = True
    request_queue_size = 512
    rounds = 1


class _Request(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        body = json.dumps({"signed": work(self.server.rounds)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Quiet: nobody reads it."""


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main(seconds: float) -> None:
    with _Server(("127.0.0.1", 0), _Request) as server:
        server.rounds = rounds_for(seconds)
        threading.Thread(target=_end_with_stdin, daemon=True).start()
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(float(sys.argv[1]))
