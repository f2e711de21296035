"""What the API layer costs beside the official Python client: one list, then a watch.

`.venv/bin/python benchmarks/watch.py [--quick] [--json FILE]`. 10,000 pods are listed in pages of
500 and 50,000 watch events consumed; all objects are kept, as an informer does. The answers are a
recording of a real API server (made by this program where there is none yet), replayed by a bare
server in its own process; each client runs in a process of its own, and on a core of its own where
there are two. The official client is fetched into an environment of its own in the cache folder.
Exit code 0: measured, also where a goal was missed; 1: could not measure.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._watch_recording import CHANGES, PAGE, CannotRecordError, Recording, recording
from tools.children import Children
from tools.provision import ROOT, SetupError, alone, cache_folder, provide_uv, trusted_certificates

#: The official client, pinned: numbers of another version would not be comparable.
OFFICIAL = "kubernetes==37.0.2"
FASTER, SMALLER = 5.0, 4.0
PATIENCE = 1800.0


class CannotMeasureError(Exception):
    """One sentence about what is missing."""


class Plan(msgspec.Struct, frozen=True):
    pods: int
    events: int
    rounds: int
    json: str


class Cost(msgspec.Struct, frozen=True):
    """Seconds, also of CPU time, and peak memory in MiB: of the list, and then of the watch with
    it. On a busy machine CPU time is the one to believe."""

    list_seconds: float
    list_peak: float
    watch_seconds: float
    watch_peak: float
    list_cpu: float
    watch_cpu: float
    pods: int
    events: int

    def line(self, client: str) -> str:
        each = self.watch_cpu / self.events * 1e6
        return (
            f"{client:<10}{self.list_seconds:>9.2f}{self.list_cpu:>9.2f}{self.list_peak:>10.0f}"
            f"{self.watch_seconds:>10.2f}{self.watch_cpu:>9.2f}{self.watch_peak:>10.0f}{each:>10.1f}"
        )


HEAD = "client       list s    CPU s  peak MiB   watch s    CPU s  peak MiB  us/event"


class Goal(msgspec.Struct, frozen=True):
    """How many times less than the official client; at least `bar` times."""

    what: str
    ratio: float
    bar: float

    def line(self) -> str:
        verdict = "ok" if self.ratio >= self.bar else "MISSED"
        return f"{self.what:<44}{self.ratio:>8.1f} x   >= {self.bar:g} x   {verdict}"


def goals(ours: Cost, theirs: Cost) -> list[Goal]:
    return [
        Goal("list, time", theirs.list_seconds / ours.list_seconds, FASTER),
        Goal("list, CPU time", theirs.list_cpu / ours.list_cpu, FASTER),
        Goal("list, peak memory", theirs.list_peak / ours.list_peak, SMALLER),
        Goal("watch, time", theirs.watch_seconds / ours.watch_seconds, FASTER),
        Goal("watch, CPU time", theirs.watch_cpu / ours.watch_cpu, FASTER),
        Goal("list and watch, peak memory", theirs.watch_peak / ours.watch_peak, SMALLER),
    ]


def middle(costs: list[Cost]) -> Cost:
    """The median of each number."""
    fields = Cost.__struct_fields__
    return msgspec.convert(
        {field: statistics.median_low(getattr(one, field) for one in costs) for field in fields},
        Cost,
    )


def official_python() -> Path:
    """Its environment, made once."""
    cache = cache_folder(os.environ)
    venv = cache / "benchmarks" / OFFICIAL
    python, mark = venv / "bin" / "python", venv / "complete"
    if mark.exists():
        return python
    print(f"fetching {OFFICIAL} into the cache folder, to compare with", file=sys.stderr)
    children = Children(ROOT)
    with alone(cache):
        uv = str(provide_uv(children, cache))
        env = {"UV_PYTHON_DOWNLOADS": "never", **trusted_certificates(os.environ)}
        base = str(getattr(sys, "_base_executable", None) or sys.executable)
        make = [uv, "venv", "--quiet", "--clear", "--python", base, str(venv)]
        # Compiled, as ours is: without that its first import takes twice the memory.
        install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python)]
        for command in (make, [*install, OFFICIAL]):
            if children.run(command, env, sys.stderr.fileno()):
                raise CannotMeasureError(f"{OFFICIAL} could not be installed")
    mark.touch()
    return python


@contextlib.contextmanager
def replaying(content: Recording, plan: Plan) -> Iterator[str]:
    """The port of a server in its own process."""
    with tempfile.NamedTemporaryFile(suffix=".msgpack") as file:
        file.write(msgspec.msgpack.encode(content))
        file.flush()
        command = [sys.executable, "-m", "benchmarks._watch_replay", file.name]
        command += [str(plan.pods), str(plan.events)]
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            _pin(server.pid, 0)
            port = (server.stdout.readline() if server.stdout else "").strip()
            if not port:
                raise CannotMeasureError("the replaying server did not start")
            yield port
        finally:
            server.kill()
            server.wait()
            if server.stdout:
                server.stdout.close()


def measure(command: list[str], content: Recording, plan: Plan) -> Cost:
    """A new server each time: a watch is told once."""
    with replaying(content, plan) as port:
        numbers = [port, str(plan.pods), str(plan.events)]
        client = subprocess.Popen([*command, *numbers], cwd=ROOT, stdout=subprocess.PIPE)
        _pin(client.pid, 1)
        try:
            told, _ = client.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            client.kill()
            client.wait()
            raise CannotMeasureError(f"no result after {PATIENCE:g} s") from None
    if client.returncode:
        raise CannotMeasureError(f"a client ended with exit code {client.returncode}")
    return msgspec.json.decode(told, type=Cost)


def _pin(pid: int, place: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(pid, {cores[place]})


def run(plan: Plan) -> tuple[list[Cost], list[Cost]]:
    content = recording()
    theirs = [str(official_python()), "benchmarks/_watch_official.py"]
    ours = [sys.executable, "-c", _SHIPPED]
    size = sum(map(len, content.page)) / PAGE / 1024
    print(f"{plan.pods} pods of {size:.1f} KiB, {plan.events} events, from {content.version}")
    print(HEAD, flush=True)
    found: tuple[list[Cost], list[Cost]] = ([], [])
    for _ in range(plan.rounds):
        for costs, client, command in zip(found, ("ours", "official"), (ours, theirs), strict=True):
            costs.append(measure(command, content, plan))
            print(costs[-1].line(client), flush=True)
    return found


#: As it is installed for use: development tools bring typing_extensions, which msgspec imports
#: wherever it is there (ADR 3).
_SHIPPED = """\
import sys
sys.modules["typing_extensions"] = None
from benchmarks._watch_ours import main
main(*sys.argv[1:])
"""


def plan_said(arguments: list[str]) -> Plan:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pods", type=int, default=10_000, help="a multiple of 500")
    parser.add_argument("--events", type=int, default=50_000, help="at most five for each pod")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="1,000 pods, 5,000 events")
    parser.add_argument("--json", default="", metavar="FILE", help="keep every round")
    said = parser.parse_args(arguments)
    pods, events = (1_000, 5_000) if said.quick else (said.pods, said.events)
    if pods < PAGE or pods % PAGE:
        parser.error(f"--pods is {pods}, but must be a multiple of {PAGE}, {PAGE} at least")
    if not 0 < events <= pods * CHANGES:
        parser.error(f"--events is {events}, but must be 1 to {pods * CHANGES}")
    if said.rounds < 1:
        parser.error(f"--rounds is {said.rounds}, but must be at least 1")
    return Plan(pods, events, said.rounds, said.json)


def main() -> int:
    plan = plan_said(sys.argv[1:])
    try:
        ours, theirs = run(plan)
    except (CannotMeasureError, CannotRecordError, SetupError) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    for goal in goals(middle(ours), middle(theirs)):
        print(goal.line())
    if plan.json:
        with open(plan.json, "wb") as file:
            file.write(msgspec.json.encode({"plan": plan, "ours": ours, "official": theirs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
