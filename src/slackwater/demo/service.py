"""The latency-sensitive service, as a program: a small HTTP server with real work per request.

One process, one request at a time, like one worker of a real service; other requests wait in the
socket's queue. It exports its latency as a Prometheus histogram at /metrics. It ends when its
standard input does, so that it never outlives the demo.
"""

import bisect
import hashlib
import itertools
import json
import os
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

_ROWS = [{"id": number, "name": f"row {number}", "price": number * 1.25} for number in range(20)]
_ENOUGH = 0.02
HISTOGRAM = "http_request_duration_seconds"
#: Upper bounds in seconds, 1 ms to 1 s.
BUCKETS = (
    0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.0175, 0.02, 0.025, 0.03, 0.04,
    0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0,
)  # fmt: skip


class LatencyHistogram:
    """Durations so far, counted by bucket."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect.bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def render(self) -> str:
        """In Prometheus' text format: every bucket counts those below it too."""
        bounds = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]
        counts = list(itertools.accumulate(self._counts))
        lines = [
            f"# HELP {HISTOGRAM} From the time that the client meant to send, to the answer.",
            f"# TYPE {HISTOGRAM} histogram",
        ]
        lines += [
            f'{HISTOGRAM}_bucket{{le="{bound}"}} {count}'
            for bound, count in zip(bounds, counts, strict=True)
        ]
        lines += [f"{HISTOGRAM}_sum {self._sum:.6f}", f"{HISTOGRAM}_count {counts[-1]}"]
        return "\n".join(lines) + "\n"


def request_start(header: str | None, now: float) -> float:
    """Seconds since the epoch in `X-Request-Start: t=...`, which load balancers set so that the
    wait for a free worker counts; `now` where it is missing or of no use."""
    try:
        start = float((header or "").removeprefix("t="))
    except ValueError:
        return now
    return start if now - 3600 < start <= now else now


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

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.latencies = LatencyHistogram()
        super().__init__(("127.0.0.1", 0), _Request)


class _Request(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(self.server.latencies.render().encode(), "text/plain; version=0.0.4")
            return
        body = json.dumps({"signed": work(self.server.rounds)}).encode()
        self._answer(body, "application/json")
        now = time.time()
        start = request_start(self.headers.get("X-Request-Start"), now)
        self.server.latencies.observe(now - start)

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Quiet: nobody reads it."""


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main(seconds: float) -> None:
    with _Server(rounds_for(seconds)) as server:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(float(sys.argv[1]))
