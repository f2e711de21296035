"""A server in Prometheus' place that answers range queries about any node at once: a daily wave.

`python benchmarks/_prometheus_replay.py` prints its port on one line and serves until it is ended.
A real Prometheus with three days of 5,000 nodes would be the slower half of what is measured.
"""

import math
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

DAY = 86_400
_NODES = re.compile(r'instance=~"\(([^)]*)\)')


class Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        asked = parse_qs(self.rfile.read(size).decode())
        found = _NODES.search(asked["query"][0])
        nodes = found[1].replace("\\\\", "").split("|") if found else []
        start, end, step = (float(asked[name][0]) for name in ("start", "end", "step"))
        times = [start + step * k for k in range(int((end - start) / step) + 1)]
        values = ",".join(
            f'[{at:.0f},"{2 + math.sin(2 * math.pi * at / DAY):.4f}"]' for at in times
        )
        grouped = "by (instance)" in asked["query"][0]
        rows = ",".join(
            '{"metric":{%s},"values":[%s]}' % (f'"instance":"{node}:9100"' * grouped, values)  # noqa: UP031
            for node in nodes
        )
        body = f'{{"status":"success","data":{{"resultType":"matrix","result":[{rows}]}}}}'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
    print(server.server_address[1], flush=True)
    server.serve_forever()
