"""The plug-ins that the settings switch on: starts and ends their processes, and asks them.

The tick never waits: it takes what a plug-in last said, about the node of a moment ago. Each has a
thread that talks to its process. A process that does not answer in time is killed, and the plug-in
is off until the agent is restarted, or the settings switch it off and on again.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from slackwater.contract.ensurance_plugin import (
    PLUGIN,
    LoadedPlugin,
    PluginAnswer,
    PluginState,
    read_plugin_attributes,
)
from slackwater.model.cgroup import CgroupRef, Tier
from slackwater.model.ensurance_plugin import PluginNode, PluginPod
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Sample, Samples, stamp
from slackwater.model.problem import InvalidError
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.observation.metrics.collector import NoRemoteSource, RemoteSource
from slackwater.observation.plugins.plugin_output import follow_output
from slackwater.policies.ensurance.pod_order import (
    EVICT_RELEASE,
    MEMORY_USAGE,
    PLACE,
    THROTTLE_RELEASE,
    sum_by_pod,
)

if TYPE_CHECKING:
    import subprocess

#: A metric counts as wanted, and an answer as good, for so long.
_FRESH = Micros(10_000_000)
_LARGEST_LINE = 4 * 2**20
_PIECE = 65_536
_CLASSES = {
    Tier.GUARANTEED: "Guaranteed",
    Tier.BURSTABLE: "Burstable",
    Tier.BESTEFFORT: "BestEffort",
}
_OFF = "it is off until the agent is restarted"


class PluginLimits(msgspec.Struct, frozen=True):
    """Seconds that a plug-in may take to be loaded, and to answer."""

    load: float = 15.0
    answer: float = 5.0


class _PipeError(Exception):
    """Why a process cannot be talked to; str() is half a sentence."""


class PluginProcess:
    """Guards one plug-in's process, and what it said last."""

    def __init__(self, name: str, limits: PluginLimits, command: tuple[str, ...]) -> None:
        self._limits = limits
        self._command = (*command, name)
        self._changed = threading.Condition()
        self._question: tuple[Micros, PluginNode] | None = None
        self._running = True
        self._process: subprocess.Popen[bytes] | None = None
        self.state = PluginState(name)
        self.answer: tuple[Micros, PluginAnswer] | None = None
        self.wanted: Micros | None = None

    def start(self) -> None:
        name = f"plug-in {self.state.name}"
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def ask(self, at: Micros, node: PluginNode) -> None:
        """The newest question counts; the answer comes when it comes."""
        with self._changed:
            self._question = (at, node)
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._running = False
            self._changed.notify()
            process = self._process
        if process is not None:
            process.kill()

    def _work(self) -> None:
        try:
            with self._spawned() as process:
                self._load(process)
                while (question := self._next()) is not None:
                    self._exchange(process, *question)
        except (OSError, _PipeError, InvalidError, msgspec.DecodeError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        told = str(error).replace(f"the plug-in {self.state.name}: ", "")
        self.answer = None
        self.state = PluginState(self.state.name, problem=f"{told}; {_OFF}")

    @contextlib.contextmanager
    def _spawned(self) -> "Iterator[subprocess.Popen[bytes]]":
        # Imported late: agents without plug-ins have none of it.
        import subprocess

        output, printed = os.pipe()
        try:
            process = subprocess.Popen(
                self._command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
                # A Ctrl-C is for the agent.
                start_new_session=True,
            )
        except OSError:
            os.close(output)
            raise
        finally:
            os.close(printed)
        self._follow(output)
        with self._changed:
            self._process = process
            if not self._running:
                process.kill()
        try:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
            yield process
        finally:
            process.kill()
            with process:
                process.wait()

    def _follow(self, output: int) -> None:
        """Until the process has ended, and whatever it started."""
        name = self.state.name
        threading.Thread(
            target=follow_output,
            args=(name, output, _show, time.monotonic),
            name=f"output of plug-in {name}",
            daemon=True,
        ).start()

    def _load(self, process: "subprocess.Popen[bytes]") -> None:
        loaded = msgspec.json.decode(_exchange(process, b"", self._limits.load), type=LoadedPlugin)
        if loaded.problem:
            raise _PipeError(loaded.problem)
        attributes = read_plugin_attributes(loaded.attributes, self.state.name)
        self.state = PluginState(self.state.name, attributes)

    def _exchange(self, process: "subprocess.Popen[bytes]", at: Micros, node: PluginNode) -> None:
        line = msgspec.json.encode(node) + b"\n"
        text = _exchange(process, line, self._limits.answer)
        found = msgspec.json.decode(text, type=PluginAnswer)
        problem = "; ".join(found.problems.values())
        if problem != self.state.problem:
            self.state = msgspec.structs.replace(self.state, problem=problem)
        samples = stamp(found.samples, at)
        self.answer = (at, msgspec.structs.replace(found, samples=samples))

    def _next(self) -> tuple[Micros, PluginNode] | None:
        with self._changed:
            while self._running and self._question is None:
                self._changed.wait()
            question, self._question = self._question, None
            return question if self._running else None


def _show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _exchange(process: "subprocess.Popen[bytes]", line: bytes, seconds: float) -> bytes:
    """Writes a line and reads one, both within this time. Raises _PipeError."""
    import selectors

    source, sink = process.stdout, process.stdin
    if source is None or sink is None:
        raise _PipeError("it has no pipes")
    deadline = time.monotonic() + seconds
    found = bytearray()
    with selectors.DefaultSelector() as ready:
        ready.register(source, selectors.EVENT_READ)
        if line:
            ready.register(sink, selectors.EVENT_WRITE)
        while not found.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0:
                raise _PipeError(f"it did not answer within {seconds:g} s")
            for key, _ in ready.select(left):
                if key.fileobj is source:
                    found += _read_piece(process, source.fileno())
                    continue
                line = line[os.write(sink.fileno(), line[:_PIECE]) :]
                if not line:
                    ready.unregister(sink)
            if len(found) > _LARGEST_LINE:
                raise _PipeError(f"it answered with more than {_LARGEST_LINE} bytes")
    return bytes(found)


def _read_piece(process: "subprocess.Popen[bytes]", descriptor: int) -> bytes:
    piece = os.read(descriptor, _PIECE)
    if not piece:
        raise _PipeError(f"its process ended ({_describe_end(process)})")
    return piece


def _describe_end(process: "subprocess.Popen[bytes]") -> str:
    import subprocess

    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return "it closed its output"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class PluginHost:
    """A RemoteSource for the metrics of plug-ins; others are asked of `others`."""

    def __init__(
        self,
        others: RemoteSource | None = None,
        limits: PluginLimits = PluginLimits(),  # noqa: B008 - frozen
        command: tuple[str, ...] = (
            sys.executable,
            "-m",
            "slackwater.observation.plugins.plugin_process",
        ),
    ) -> None:
        self._others = others or NoRemoteSource()
        self._limits = limits
        self._command = command
        self._names: tuple[str, ...] = ()
        self._processes: dict[str, PluginProcess] = {}
        self._states: tuple[PluginState, ...] = ()

    def use(self, names: tuple[str, ...]) -> tuple[PluginState, ...]:
        """Those that are switched on, from now on; what is known of them, which is the same object
        while nothing changes."""
        if names != self._names:
            self._names = names
            for name in self._processes.keys() - set(names):
                self._processes.pop(name).stop()
            for name in dict.fromkeys(names):
                if name not in self._processes:
                    self._processes[name] = PluginProcess(name, self._limits, self._command)
                    self._processes[name].start()
        states = tuple(each.state for each in self._processes.values())
        if states != self._states:
            self._states = states
        return self._states

    def offer(self, snapshot: NodeSnapshot) -> None:
        """Asks those about it of which somebody wants something."""
        for each in self._processes.values():
            wanted, attributes = each.wanted, each.state.attributes
            if wanted is not None and attributes and snapshot.at - wanted < _FRESH:
                each.ask(snapshot.at, show_node(snapshot, attributes.name))

    def samples(self, key: MetricKey, at: Micros) -> Samples | Gap:
        kind, _, name = key.source.partition("/")
        if kind != PLUGIN:
            return self._others.samples(key, at)
        process = self._processes.get(name)
        if process is None:
            return Gap(f"the plug-in {name} is not switched on")
        process.wanted = at
        answer = process.answer
        if answer is None or at - answer[0] > _FRESH:
            reason = process.state.problem or "it has not answered yet"
            return Gap(f"the plug-in {name}: {reason}")
        return _find_series(answer[1], key.name, name)

    def close(self) -> None:
        self.use(())


def _find_series(answer: PluginAnswer, series: str, name: str) -> Samples | Gap:
    functions: dict[str, tuple[str, Mapping[str, float]]] = {
        PLACE: ("compare", answer.places),
        THROTTLE_RELEASE: ("throttle_release", answer.throttle_releases),
        EVICT_RELEASE: ("evict_release", answer.evict_releases),
    }
    function, amounts = functions.get(series, ("samples", {}))
    if function in answer.problems:
        return Gap(f"the plug-in {name}: {answer.problems[function]}")
    if series in functions:
        return tuple(Sample(float(each), {"PodUid": uid}) for uid, each in amounts.items())
    return answer.samples


def show_node(snapshot: NodeSnapshot, metric: str) -> PluginNode:
    """What a plug-in about this metric is shown: pods whose objects are known."""
    pods = [pod for pod in snapshot.workloads if pod.namespace]
    uids = {(pod.namespace, pod.name): pod.uid for pod in pods}
    memories = sum_by_pod(_known(snapshot.metrics.get(MEMORY_USAGE.title(), ())), uids)
    values = sum_by_pod(_own_samples(snapshot.metrics, metric), uids)
    return PluginNode(
        snapshot.wall_time,
        tuple(
            PluginPod(
                uid=pod.uid,
                name=pod.name,
                namespace=pod.namespace,
                qos_class=_CLASSES[pod.tier],
                priority=pod.priority,
                labels=pod.labels,
                cpu_usage=_known_usage(snapshot, pod.ref),
                memory_usage=memories.get(pod.uid),
                value=values.get(pod.uid),
                started=pod.started,
            )
            for pod in pods
        ),
        None if isinstance(snapshot.usage, Gap) else snapshot.usage,
        {
            title: found
            for title, found in snapshot.metrics.items()
            if not isinstance(found, Gap) and not title.startswith(f"{PLUGIN}/")
        },
    )


def _known(samples: Samples | Gap) -> Samples:
    return () if isinstance(samples, Gap) else samples


def _known_usage(snapshot: NodeSnapshot, ref: CgroupRef | Gap) -> int | None:
    used = ref if isinstance(ref, Gap) else snapshot.usage_of(ref)
    return None if isinstance(used, Gap) else used


def _own_samples(metrics: Mapping[str, Samples | Gap], metric: str) -> Iterable[Sample]:
    """The metric's series, from whatever source."""
    for title, found in metrics.items():
        named = title == metric or title.endswith(f":{metric}")
        if named or title.startswith(f"EnsuranceMetric/{metric}:"):
            yield from _known(found)
