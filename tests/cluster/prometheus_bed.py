"""A real Prometheus on loopback, with series that are written before it starts (promtool).

    now = time.time()
    series = [usage("shop", "web-a", 1.2, now=now), request("shop", "web-a", 1.0, now=now)]
    with prometheus_with(tmp_path, series) as bed:
        ... bed.endpoint is http://127.0.0.1:PORT, as PROMETHEUS_ENDPOINT wants it

`usage` and `request` are cAdvisor's and kube-state-metrics' series of one container; `counter` and
`gauge` make any other (an exporter's lag). All series go on AHEAD seconds past `now` unless told
where they end, so that a slow test still asks about a workload that runs. Debian's package
`prometheus` brings both programs; every test may have a Prometheus of its own, it takes 0.4 s.
"""

import math
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import msgspec

from tools.cluster.processes import LOOPBACK, Processes, free_ports

#: Seconds; as scrape configurations have it.
STEP = 15.0
#: How long a series has been there unless told otherwise, and how long it goes on past now.
LASTED, AHEAD = 1800.0, 1200.0
PROGRAM = "prometheus"


class Backfill(msgspec.Struct, frozen=True):
    """One series; `points` are (seconds since 1970, value), in order."""

    metric: str
    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]
    kind: str = "gauge"


class PrometheusBed(msgspec.Struct, frozen=True):
    """`endpoint` with its prefix, without a slash at the end. `processes` has one program, called
    PROGRAM, to be paused or killed."""

    endpoint: str
    processes: Processes


def usage(
    namespace: str,
    pod: str,
    cores: float,
    *,
    now: float,
    container: str = "app",
    age: float = LASTED,
    ended: float | None = None,
    more: Mapping[str, str] | None = None,
) -> Backfill:
    """What cAdvisor counts of a container that uses so many cores since `age` seconds. `ended`: so
    many seconds ago it did. `more`: labels that tell duplicates or restarts apart (`id`,
    `replica`), or that replace one of ours."""
    labels = {
        "namespace": namespace,
        "pod": pod,
        "container": container,
        "id": f"/kubepods/burstable/pod{pod}/{container}",
        "cpu": "total",
        **(more or {}),
    }
    metric = "container_cpu_usage_seconds_total"
    return counter(metric, labels, cores, now=now, age=age, ended=ended)


def request(
    namespace: str,
    pod: str,
    cores: float,
    *,
    now: float,
    container: str = "app",
    more: Mapping[str, str] | None = None,
) -> Backfill:
    """What kube-state-metrics tells of a container's CPU request."""
    labels = {
        "namespace": namespace,
        "pod": pod,
        "container": container,
        "resource": "cpu",
        "unit": "core",
        **(more or {}),
    }
    return gauge("kube_pod_container_resource_requests", labels, cores, now=now)


def counter(
    metric: str,
    labels: Mapping[str, str],
    per_second: float,
    *,
    now: float,
    age: float = LASTED,
    ended: float | None = None,
) -> Backfill:
    """Starts from zero. The metric's name ends with _total."""
    start = now - age
    points = tuple((at, per_second * (at - start)) for at in _times(start, now, ended))
    return Backfill(metric, dict(labels), points, "counter")


def gauge(
    metric: str,
    labels: Mapping[str, str],
    value: float,
    *,
    now: float,
    age: float = LASTED,
    ended: float | None = None,
) -> Backfill:
    points = tuple((at, value) for at in _times(now - age, now, ended))
    return Backfill(metric, dict(labels), points)


@contextmanager
def prometheus_with(
    folder: Path, series: Iterable[Backfill], *arguments: str, prefix: str = ""
) -> Iterator[PrometheusBed]:
    """Until the block ends. `folder` is the test's own; `arguments` are further ones of
    prometheus, `prefix` a path in front of its own paths."""
    place = folder / "prometheus"
    place.mkdir()
    backfill(place, series)
    (place / "prometheus.yml").write_text("global: {}\n")
    port = free_ports(1)[0]
    command = [
        _program("prometheus"),
        f"--config.file={place}/prometheus.yml",
        f"--storage.tsdb.path={place}/data",
        f"--web.listen-address={LOOPBACK}:{port}",
        f"--web.route-prefix={prefix or '/'}",
        *arguments,
    ]
    processes = Processes(place / "logs")
    try:
        processes.start(PROGRAM, command)
        scheme = "https" if any("web.config" in each for each in arguments) else "http"
        bed = PrometheusBed(f"{scheme}://{LOOPBACK}:{port}{prefix}", processes)
        processes.wait_until("Prometheus", PROGRAM, lambda: _is_ready(bed))
        yield bed
    finally:
        processes.kill_all()


def backfill(place: Path, series: Iterable[Backfill]) -> None:
    """Blocks of Prometheus' own kind, below `place`/data."""
    text = place / "series.txt"
    text.write_text(exposition(series))
    command = [
        _program("promtool"),
        *("tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=24h", "--quiet"),
        *(str(text), str(place / "data")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def exposition(series: Iterable[Backfill]) -> str:
    """OpenMetrics: families stand together, a counter's family has no _total."""
    families: dict[tuple[str, str], list[str]] = {}
    for one in series:
        family = one.metric.removesuffix("_total") if one.kind == "counter" else one.metric
        labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in one.labels.items())
        lines = families.setdefault((family, one.kind), [])
        lines += [f"{one.metric}{{{labels}}} {_number(value)} {at:.3f}" for at, value in one.points]
    blocks = [
        "\n".join([f"# TYPE {family} {kind}", *lines]) for (family, kind), lines in families.items()
    ]
    return "\n".join([*blocks, "# EOF\n"])


def _times(start: float, now: float, ended: float | None) -> list[float]:
    end = now + AHEAD if ended is None else now - ended
    return [start + STEP * turn for turn in range(int((end - start) / STEP) + 1)]


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"there is no {name} (Debian's package prometheus)"
    return found


def _is_ready(bed: PrometheusBed) -> bool:
    """By its log where TLS or a password guards the page."""
    if "Server is ready to receive web requests" not in bed.processes.log(PROGRAM).read_text():
        return False
    if bed.endpoint.startswith("https"):
        return True
    direct = build_opener(ProxyHandler({}))
    with direct.open(f"{bed.endpoint}/-/ready", timeout=5) as answer:
        return bool(answer.status == 200)
