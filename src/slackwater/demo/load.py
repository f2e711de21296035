"""The open-loop load, as a program: requests at intended times, their latencies on stdout.

Reads one JSON object from standard input: the port, and the intended times in seconds after the
start. Prints when it starts (on the kernel's monotonic clock, the same for every process), then one
JSON line for each answer. Latency counts from the intended time, so a client that falls behind
makes the numbers worse instead of better.
"""

import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import Callable

#: Further requests wait in the client, and count as late.
CONNECTIONS = 32
#: Seconds until a request counts as unanswered.
PATIENCE = 10.0
#: Seconds from printing the start to the first request.
_HEAD_START = 0.1
_REQUEST = "GET /work HTTP/1.0\r\nHost: demo\r\nX-Request-Start: t={:.6f}\r\n\r\n"


def ask(port: int, patience: float, intended: float | None = None) -> bool:
    """One request; whether it was answered. It tells the service when it was meant to be sent, on
    the monotonic clock, as a load balancer would."""
    late = 0.0 if intended is None else time.monotonic() - intended
    request = _REQUEST.format(time.time() - late).encode()
    try:
        with socket.create_connection(("127.0.0.1", port), patience) as connection:
            connection.sendall(request)
            answer = b""
            while part := connection.recv(65536):
                answer += part
    except OSError:
        return False
    return answer.startswith(b"HTTP/1.0 200 ")


def run(
    port: int, times: list[float], tell: Callable[[str], None], patience: float = PATIENCE
) -> None:
    """All requests, then returns."""
    start = time.monotonic() + _HEAD_START
    tell(json.dumps({"start": start}))
    numbers, guard = itertools.count(), threading.Lock()

    def send() -> None:
        while (number := next(numbers)) < len(times):
            intended = start + times[number]
            time.sleep(max(intended - time.monotonic(), 0))
            ok = ask(port, patience, intended)
            took = (time.monotonic() - intended) * 1000
            with guard:
                tell(json.dumps([times[number], round(took, 3), ok]))

    threads = [threading.Thread(target=send) for _ in range(min(CONNECTIONS, len(times)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    asked = json.load(sys.stdin)
    run(asked["port"], asked["times"], lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
