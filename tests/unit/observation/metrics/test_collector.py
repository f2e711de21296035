"""Measured is what is asked for, and nothing else; old samples stand in for as long as they may."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.contract.crane.metrics import METRICS, needs_of_metrics
from slackwater.model.cgroup import CgroupVersion, Level
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, MetricRequest, Sample, Samples, stamp
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.units import Micros, MilliCpu
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, TickView
from tests.unit.observation.metrics.group_node import GroupNode
from tests.unit.observation.metrics.hosts import NOTHING, PlainHost, at, look, requests, values

#: Where files are noted now; an audit hook stays for good.
_NOTED: list[list[str]] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _NOTED and event in ("open", "os.listdir", "os.scandir"):
        _NOTED[-1].append(str(arguments[0]))


sys.addaudithook(_note)


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Every file that is opened, and every folder that is listed."""
    _NOTED.append([])
    yield _NOTED[-1]
    _NOTED.clear()


@pytest.fixture
def host(tmp_path: Path) -> PlainHost:
    return PlainHost(tmp_path)


def test_every_name_of_the_table_is_measured(tmp_path: Path) -> None:
    node = GroupNode(tmp_path, CgroupVersion.V2)
    view = node.view()
    found = look(node.collector, 1, METRICS, view)
    assert found.keys() == METRICS.keys()
    unmeasured = {
        name
        for name, each in found.items()
        if isinstance(each, Gap) and each.reason.startswith("this node measures no")
    }
    assert not unmeasured
    node.collector.close()


def test_without_requests_nothing_is_opened(tmp_path: Path, opened: list[str]) -> None:
    node = GroupNode(tmp_path, CgroupVersion.V1)
    view = node.view()
    opened.clear()
    assert look(node.collector, 1, [], view) == {}
    node.collector.close()
    assert opened == []


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("cpu_total_usage", set()),
        ("exclusive_cpu_idle", set()),
        ("ext_cpu_total_distribute", set()),
        ("container_cpu_total_usage", set()),
        ("container_cpu_limit", set()),
        ("container_cpu_quota", set()),
        ("ext_res_container_cpu_total_usage", set()),
        ("cpu_core_numbers", {"online"}),
        ("cpu_total_utilization", {"online"}),
        ("cpu_load_5_min", {"loadavg"}),
        ("memory_total", {"meminfo"}),
        ("disk_write_kibps", {"diskstats"}),
        ("network_sent_kibps", {"dev"}),
        ("container_mem_total_usage", {"memory.usage_in_bytes", "memory.stat"}),
        ("container_sched_run_queue_time", {"tasks", "schedstat"}),
    ],
)
def test_only_what_is_asked_for_is_opened(
    tmp_path: Path, opened: list[str], name: str, files: set[str]
) -> None:
    node = GroupNode(tmp_path, CgroupVersion.V1)
    node.tasks(node.refs[0][1], t7=1)
    view = node.view()
    opened.clear()
    look(node.collector, 1, [name], view)
    seen = {Path(each).name for each in opened}
    folders = {Path(ref.path).name for pair in node.refs for ref in pair}
    assert seen - folders == files
    node.collector.close()


def test_what_is_no_longer_asked_for_is_forgotten(host: PlainHost) -> None:
    collector = host.collector()
    look(collector, 1, ["disk_read_iops"])
    assert values(look(collector, 2, ["disk_read_iops", "memory_total"])["disk_read_iops"])
    look(collector, 3, ["memory_total"])
    assert look(collector, 4, ["disk_read_iops"]) == {"disk_read_iops": NEEDS_SECOND}


def test_another_metric_of_the_same_file_has_its_rate_at_once(host: PlainHost) -> None:
    collector = host.collector()
    look(collector, 1, ["disk_read_iops"])
    assert values(look(collector, 2, ["disk_write_iops"])["disk_write_iops"])


@pytest.mark.parametrize(
    ("ages", "seconds", "kept"),
    [
        ((0,), 1, False),  # nobody says that it may be old
        ((60,), 60, True),
        ((60,), 61, False),
        ((60, 10), 11, False),  # the stricter one counts
        ((60, 0), 11, True),  # 0 sets no bound
    ],
)
def test_the_last_samples_stand_in_up_to_their_age(
    host: PlainHost, ages: tuple[int, ...], seconds: int, kept: bool
) -> None:
    collector = host.collector()
    asked = frozenset(MetricRequest(MetricKey("memory_total"), age) for age in ages)
    first = collector.collect(at(100), asked, NOTHING)
    host.remove("proc/meminfo")
    found = collector.collect(at(100 + seconds), asked, NOTHING)["memory_total"]
    if kept:
        before = first["memory_total"]
        assert not isinstance(before, Gap)
        assert found == stamp(before, at(100))
    else:
        assert isinstance(found, Gap)
        assert "meminfo is not readable: No such file or directory" in found.reason
        assert found.reason.endswith(f"; the last sample is {seconds} s old")


def test_samples_come_back_with_the_file(host: PlainHost) -> None:
    collector = host.collector()
    look(collector, 1, ["cpu_load_1_min"])
    host.put("proc/loadavg", b"?")
    assert isinstance(look(collector, 2, ["cpu_load_1_min"])["cpu_load_1_min"], Gap)
    host.put("proc/loadavg", b"9.00 8.00 7.00 1/2 3\n")
    assert values(look(collector, 3, ["cpu_load_1_min"])["cpu_load_1_min"]) == [9.0]


def test_a_metric_that_nobody_measures_is_told_and_others_go_on(host: PlainHost) -> None:
    found = look(host.collector(), 1, ["cpu_total_usages", "cpu_load_1_min"])
    assert found["cpu_total_usages"] == Gap("this node measures no cpu_total_usages")
    assert values(found["cpu_load_1_min"]) == [1.5]


class Answers:
    """A source that answers with what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[MetricKey, Micros]] = []

    def samples(self, key: MetricKey, now: Micros) -> Samples | Gap:
        self.asked.append((key, now))
        return Gap("it hangs") if key.name == "hangs" else (Sample(7.0, {"path": "/"}),)


def test_other_sources_are_asked_for_theirs(host: PlainHost) -> None:
    remote = Answers()
    collector = host.collector(remote=remote)
    probe = "NodeQOS/latency"
    asked = frozenset(
        {
            MetricRequest(MetricKey("cpu_total_usage", probe), 60),
            MetricRequest(MetricKey("cpu_total_usage", probe), 10),
            MetricRequest(MetricKey("hangs", probe)),
            MetricRequest(MetricKey("cpu_total_usage")),
        }
    )
    found = collector.collect(at(1), asked, TickView(usage=MilliCpu(5)))
    assert found == {
        "cpu_total_usage": (Sample(5.0),),
        "NodeQOS/latency:cpu_total_usage": (Sample(7.0, {"path": "/"}),),
        "NodeQOS/latency:hangs": Gap("it hangs"),
    }
    assert remote.asked == [
        (MetricKey("cpu_total_usage", probe), at(1)),
        (MetricKey("hangs", probe), at(1)),
    ]


def test_without_sources_theirs_are_gaps(host: PlainHost) -> None:
    key = MetricKey("p99", "NodeQOS/latency")
    found = host.collector().collect(at(1), frozenset({MetricRequest(key)}), NOTHING)
    assert found == {key.title(): Gap("nothing asks NodeQOS/latency")}


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        ((), None),
        (("cpu_total_usage", "disk_read_iops"), None),
        (("container_cpu_total_usage",), {ReadingField.TIMES}),
        (("ext_res_container_cpu_total_usage", "container_cpu_quota"),
         {ReadingField.TIMES, ReadingField.QUOTA}),
        (("container_cpu_period",), {ReadingField.QUOTA}),
        (("container_cpu_limit",), {ReadingField.WEIGHT}),
        (("container_mem_total_usage",), set()),  # listed, and read by the collector
        (("container_sched_run_queue_time",), set()),
    ],
)  # fmt: skip
def test_what_is_read_of_the_tree_for_them(
    names: tuple[str, ...], fields: set[ReadingField] | None
) -> None:
    asked = requests(*names)
    found = needs_of_metrics(asked)
    if fields is None:
        assert found == Needs(metrics=asked)
    else:
        below = frozenset(fields)
        assert found == Needs({Level.POD: below, Level.CONTAINER: below}, asked)


def test_a_probes_series_of_the_same_name_needs_no_cgroup() -> None:
    asked = frozenset({MetricRequest(MetricKey("container_cpu_quota", "PodQOS/a"))})
    assert needs_of_metrics(asked) == Needs(metrics=asked)
