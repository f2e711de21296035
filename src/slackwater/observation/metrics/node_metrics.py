"""Metrics of the node itself: CPU, load, memory, disks, network, and what is handed out of its
extended resources.

CPU usage is the survey's own, exact and without waiting for disks: work that waits uses no CPU.
"""

from collections.abc import Callable, Mapping

import msgspec

from slackwater.bounded_read import read_start
from slackwater.model.elastic import ELASTIC_CPU
from slackwater.model.gap import Gap
from slackwater.model.metric import Sample, Samples
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.workload import Workload
from slackwater.observation.host import Roots
from slackwater.observation.metrics import proc_text
from slackwater.observation.metrics.proc_text import DiskCounters, InterfaceCounters
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, MetricAges, TickView
from slackwater.observation.rates import SHORTEST

_TOO_SOON = Gap("it was read a moment ago, too soon for a rate")
_MICROS_PER_SECOND = 1_000_000
_LOOPBACK = "lo"


def read_proc(file: str, longest: int = proc_text.LONGEST_TABLE) -> bytes | Gap:
    match read_start(file, longest):
        case Gap(reason):
            return Gap(f"{file} is {reason}")
        case contents if contents.cut:
            return Gap(f"{file} is longer than {longest} bytes")
        case contents:
            return contents.data


def only(value: float) -> Samples:
    """The one series of a metric without labels."""
    return (Sample(value),)


def cpu_usage(usage: MilliCpu | Gap) -> Samples | Gap:
    return usage if isinstance(usage, Gap) else only(float(usage))


def cpu_utilization(usage: MilliCpu | Gap, cpus: int) -> Samples | Gap:
    """Percent of all CPUs: usage in milliCPU / (CPUs x 10). What was read a moment apart can be a
    little more than all of them."""
    return usage if isinstance(usage, Gap) else only(min(usage / (cpus * 10), 100.0))


class CpuMetrics:
    """The node's usage is at hand; only its CPUs are counted."""

    names = frozenset({"cpu_total_usage", "cpu_total_utilization", "cpu_core_numbers"})
    keeps_samples = False
    _sized = frozenset({"cpu_total_utilization", "cpu_core_numbers"})

    def __init__(self, count_cpus: Callable[[], int | Gap]) -> None:
        self._count_cpus = count_cpus

    def measure(
        self, _at: Micros, wanted: MetricAges, view: TickView
    ) -> Mapping[str, Samples | Gap]:
        found = {"cpu_total_usage": cpu_usage(view.usage)}
        if not self._sized.isdisjoint(wanted):
            cpus = self._count_cpus()
            if isinstance(cpus, Gap):
                return found | dict.fromkeys(self._sized, cpus)
            found["cpu_core_numbers"] = only(float(cpus))
            found["cpu_total_utilization"] = cpu_utilization(view.usage, cpus)
        return found

    def forget(self) -> None:
        """Nothing is kept."""


class LoadMetrics:
    names = frozenset({"cpu_load_1_min", "cpu_load_5_min", "cpu_load_15_min"})
    keeps_samples = False

    def __init__(self, roots: Roots) -> None:
        self._file = f"{roots.proc}/loadavg"

    def measure(
        self, _at: Micros, wanted: MetricAges, _view: TickView
    ) -> Mapping[str, Samples | Gap]:
        text = read_proc(self._file)
        loads = text if isinstance(text, Gap) else proc_text.loads(text)
        if isinstance(loads, Gap):
            return dict.fromkeys(wanted, loads)
        one, five, fifteen = map(only, loads)
        return {"cpu_load_1_min": one, "cpu_load_5_min": five, "cpu_load_15_min": fifteen}

    def forget(self) -> None:
        """Nothing is kept."""


class MemoryMetrics:
    """In use is what is not available: page cache that can be dropped is not in use."""

    names = frozenset({"memory_total", "memory_total_usage", "memory_total_utilization"})
    keeps_samples = False

    def __init__(self, roots: Roots) -> None:
        self._file = f"{roots.proc}/meminfo"

    def measure(
        self, _at: Micros, wanted: MetricAges, _view: TickView
    ) -> Mapping[str, Samples | Gap]:
        text = read_proc(self._file)
        memory = text if isinstance(text, Gap) else proc_text.node_memory(text)
        if isinstance(memory, Gap):
            return dict.fromkeys(wanted, memory)
        used = max(memory.total - memory.available, 0)
        return {
            "memory_total": only(float(memory.total)),
            "memory_total_usage": only(float(used)),
            "memory_total_utilization": only(used * 100 / memory.total),
        }

    def forget(self) -> None:
        """Nothing is kept."""


class _PerSecond(msgspec.Struct, frozen=True):
    """How a counter becomes a metric: its growth in a second times `factor`, at most `most`."""

    counter: str
    factor: float
    most: float = float("inf")


_DISKS = {
    "disk_read_kibps": _PerSecond("sectors_read", 512 / 1024),
    "disk_write_kibps": _PerSecond("sectors_written", 512 / 1024),
    "disk_read_iops": _PerSecond("reads", 1),
    "disk_write_iops": _PerSecond("writes", 1),
    "disk_read_utilization": _PerSecond("busy_milliseconds", 100 / 1000, 100.0),
}
_INTERFACES = {
    # Crane's name says KiB, and what it counts is kilobits.
    "network_receive_kibps": _PerSecond("received_bytes", 8 / 1000),
    "network_sent_kibps": _PerSecond("sent_bytes", 8 / 1000),
    "network_receive_pckps": _PerSecond("received_packets", 1),
    "network_sent_pckps": _PerSecond("sent_packets", 1),
    "network_drop_in": _PerSecond("received_drops", 1),
    "network_drop_out": _PerSecond("sent_drops", 1),
}
_Counters = Mapping[str, DiskCounters | InterfaceCounters]


class CounterMetrics:
    """Counters of one file, by device: rates between two readings. A device that was seen once, or
    whose counter fell, has no sample."""

    keeps_samples = False

    def __init__(
        self,
        file: str,
        label: str,
        parse: Callable[[bytes], _Counters | Gap],
        rates: Mapping[str, _PerSecond],
    ) -> None:
        self.names = frozenset(rates)
        self._file, self._label, self._parse, self._rates = file, label, parse, rates
        self._before: tuple[Micros, _Counters] | None = None

    def measure(
        self, at: Micros, wanted: MetricAges, _view: TickView
    ) -> Mapping[str, Samples | Gap]:
        text = read_proc(self._file)
        now = text if isinstance(text, Gap) else self._parse(text)
        if isinstance(now, Gap):
            return dict.fromkeys(wanted, now)
        if self._before is not None and 0 <= at - self._before[0] < SHORTEST:
            return dict.fromkeys(wanted, _TOO_SOON)
        before, self._before = self._before, (at, now)
        if before is None or at <= before[0]:
            return dict.fromkeys(wanted, NEEDS_SECOND)
        return {name: self._between(name, before[1], now, at - before[0]) for name in wanted}

    def forget(self) -> None:
        self._before = None

    def _between(self, name: str, before: _Counters, now: _Counters, elapsed: int) -> Samples | Gap:
        rate = self._rates[name]
        found: list[Sample] = []
        missing = NEEDS_SECOND
        for device, counters in now.items():
            earlier = before.get(device)
            if earlier is None:
                continue
            grown = getattr(counters, rate.counter) - getattr(earlier, rate.counter)
            if grown < 0:
                missing = Gap(f"a counter of {device} went backwards")
                continue
            value = min(grown * _MICROS_PER_SECOND / elapsed * rate.factor, rate.most)
            found.append(Sample(value, {self._label: device}))
        return tuple(found) if found or not now else missing


def disk_metrics(roots: Roots) -> CounterMetrics:
    return CounterMetrics(f"{roots.proc}/diskstats", "diskName", proc_text.disks, _DISKS)


def interface_metrics(roots: Roots) -> CounterMetrics:
    """Of the network namespace of the node's first process: ours may be a container's."""

    def parse(text: bytes) -> _Counters | Gap:
        found = proc_text.interfaces(text)
        if not isinstance(found, Gap):
            found.pop(_LOOPBACK, None)
        return found

    return CounterMetrics(f"{roots.proc}/1/net/dev", "NetInterface", parse, _INTERFACES)


class ElasticCpuMetrics:
    """How much of the elastic CPU that the node offers has been asked for."""

    names = frozenset({"ext_cpu_total_distribute"})
    keeps_samples = False

    def measure(
        self, _at: Micros, wanted: MetricAges, view: TickView
    ) -> Mapping[str, Samples | Gap]:
        offered = view.offered.get(ELASTIC_CPU, 0)
        if not offered:
            return dict.fromkeys(wanted, Gap(f"the node offers no {ELASTIC_CPU}"))
        if isinstance(offered, Gap):
            return dict.fromkeys(wanted, offered)
        asked = _asked(view.workloads)
        if isinstance(asked, Gap):
            return dict.fromkeys(wanted, asked)
        return dict.fromkeys(wanted, only(asked * 100 / offered))

    def forget(self) -> None:
        """Nothing is kept."""


def _asked(workloads: tuple[Workload, ...]) -> int | Gap:
    total = 0
    for each in workloads:
        amount = each.extended_requests.get(ELASTIC_CPU, 0)
        if isinstance(amount, Gap):
            return Gap(f"{each.title()}: {amount.reason}")
        total += amount
    return total
