"""The metrics that a rule may name, by Crane's names.

Owns the list, what each one counts, and which readings of cgroups it is made of. Crane's webhook
refuses some of them although its agent collects them and its examples use them; here every metric
that is collected may be named.
"""

from collections.abc import Iterable, Mapping

from slackwater.model.cgroup import Level
from slackwater.model.metric import NODE, MetricRequest
from slackwater.model.needs import Needs, ReadingField

#: Name to what it counts.
METRICS: Mapping[str, str] = {
    "cpu_total_usage": "milliCPU in use on the node",
    "cpu_total_utilization": "percent of the node's CPU in use",
    "cpu_core_numbers": "logical CPUs of the node",
    "exclusive_cpu_idle": "idle milliCPU of CPUs that pods hold for themselves",
    "cpu_load_1_min": "load average of 1 minute",
    "cpu_load_5_min": "load average of 5 minutes",
    "cpu_load_15_min": "load average of 15 minutes",
    "memory_total": "bytes of memory of the node",
    "memory_total_usage": "bytes of memory in use on the node",
    "memory_total_utilization": "percent of the node's memory in use",
    "disk_read_kibps": "KiB read per second, by disk",
    "disk_write_kibps": "KiB written per second, by disk",
    "disk_read_iops": "reads per second, by disk",
    "disk_write_iops": "writes per second, by disk",
    "disk_read_utilization": "percent of the time in which the disk was busy, by disk",
    "network_receive_kibps": "kilobits received per second, by interface",
    "network_sent_kibps": "kilobits sent per second, by interface",
    "network_receive_pckps": "packets received per second, by interface",
    "network_sent_pckps": "packets sent per second, by interface",
    "network_drop_in": "incoming packets dropped per second, by interface",
    "network_drop_out": "outgoing packets dropped per second, by interface",
    "ext_cpu_total_distribute": "percent of the node's gocrane.io/cpu that pods have asked for",
    "container_cpu_total_usage": "CPUs in use, by container",
    "container_sched_run_queue_time": "microseconds per second of waiting for a CPU, by container",
    "container_cpu_limit": "cpu.shares, by container",
    "container_cpu_quota": "CPU quota in microseconds, by container",
    "container_cpu_period": "CPU period in microseconds, by container",
    "container_mem_total_usage": "bytes of working set, by container",
    "ext_res_container_cpu_total_usage": "CPUs in use by containers with gocrane.io/cpu",
    "ext_res_container_mem_total_usage": "bytes in use by containers with gocrane.io/memory",
}

#: Made of the CPUs that containers hold alone, and of what these use.
_EXCLUSIVE_IDLE = "exclusive_cpu_idle"
#: Metrics of pods and containers, and what the survey reads of each group for them; memory and
#: waiting tasks are read by whoever measures them.
_READINGS: Mapping[str, frozenset[ReadingField]] = {
    "container_cpu_total_usage": frozenset({ReadingField.TIMES}),
    "ext_res_container_cpu_total_usage": frozenset({ReadingField.TIMES}),
    "container_cpu_limit": frozenset({ReadingField.WEIGHT}),
    "container_cpu_quota": frozenset({ReadingField.QUOTA}),
    "container_cpu_period": frozenset({ReadingField.QUOTA}),
    "container_mem_total_usage": frozenset(),
    "ext_res_container_mem_total_usage": frozenset(),
    "container_sched_run_queue_time": frozenset(),
}


def needs_of_metrics(requests: Iterable[MetricRequest]) -> Needs:
    """The requests, and what has to be read of which level of the tree for them."""
    asked = frozenset(requests)
    all_names = {each.key.name for each in asked if each.key.source == NODE}
    exclusive = _EXCLUSIVE_IDLE in all_names
    names = all_names & _READINGS.keys()
    fields = frozenset[ReadingField]().union(*(_READINGS[name] for name in names))
    inner = fields | {ReadingField.TIMES} if exclusive else fields
    levels = {Level.POD: fields, Level.CONTAINER: inner} if names or exclusive else {}
    return Needs(levels, asked, topology=exclusive)


def is_known(name: str) -> bool:
    return name in METRICS


def is_of_users(name: str) -> bool:
    """Whether it is none of the node's, nor a series of the rule's own probe: the name of an
    EnsuranceMetric has a '-', that of a plug-in's metric and of another object's series a '/'."""
    return "-" in name or "/" in name


def known_names() -> str:
    """All of them, for a sentence."""
    return ", ".join(METRICS)
