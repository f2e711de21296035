"""What the footprint benchmark concludes from its numbers, and the pods that it makes."""

from pathlib import Path

import pytest

from benchmarks._pods import POLICIES, BatchPod, BenchPod, write_folder, write_rules
from benchmarks._running import calls_in, quota_in
from benchmarks.agent_footprint import Footprint, bars, growth
from benchmarks.crowd_footprint import pod_text
from slackwater.contract.pod_resources import pod_requests, qos_tier
from slackwater.model.cgroup import Tier
from slackwater.model.gap import Gap
from slackwater.model.workload import BurstRequest
from slackwater.observation.cgroups.paths import container_id, pod_uid
from slackwater.observation.objects.folder import Folder
from slackwater.observation.objects.object_set import Objects
from slackwater.observation.objects.workload_matching import workloads_of
from slackwater.policies.catalog import POLICIES as CATALOG

SUMMARY = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.10    0.000113           0       252           newfstatat
 20.00    0.000020           1        11         2 pread64
  0.00    0.000000           0         1           poll
------ ----------- ----------- --------- --------- ----------------
100.00    0.000133           0       264         2 total
"""


def footprint(pods: int, milli: float, duty: str = "needed", rss: float = 20.0) -> Footprint:
    return Footprint(pods, duty, milli, rss, rss / 2, 10, 1.0, 0, None, None)


def test_system_calls_are_counted_by_name_without_the_total() -> None:
    assert calls_in(SUMMARY) == {"newfstatat": 252, "pread64": 11, "poll": 1}


@pytest.mark.parametrize(
    ("text", "milli"), [("-1\n", None), ("max 100000\n", None), ("160000\n", 1600), ("1000", 10)]
)
def test_quotas(text: str, milli: int | None) -> None:
    assert quota_in(text) == milli


@pytest.mark.parametrize(
    ("costs", "missed"),
    [
        ({50: 1.0, 250: 2.0, 500: 3.25, 1000: 5.75}, False),
        ({50: 1.0, 250: 1.0, 500: 1.0, 1000: 1.0}, False),
        ({50: 0.25, 250: 6.25, 500: 25.0, 1000: 100.0}, True),
    ],
)
def test_linear_growth(costs: dict[int, float], missed: bool) -> None:
    rows = growth([footprint(pods, milli) for pods, milli in costs.items()], "needed")
    line = next(row for row in rows if row.what.startswith("CPU of 1000 pods"))
    assert line.missed() is missed


def test_growth_is_of_one_duty_alone() -> None:
    found = [footprint(50, 1.0), footprint(250, 3.0), footprint(50, 9.0, "everything")]
    [cpu, rss] = growth(found, "needed")
    assert cpu.measured == pytest.approx(1.0)
    assert rss.measured == 0
    assert growth(found, "everything") == []


def test_bars_are_for_250_pods() -> None:
    found = [footprint(50, 99.0), footprint(250, 2.5), footprint(250, 7.0, "everything")]
    rows = bars(found)
    judged = {row.what: row.missed() for row in rows if row.bar is not None}
    assert judged == {
        "CPU, 250 pods, needed read": True,
        "RSS, 250 pods, needed read": False,
        "CPU, 250 pods, everything read": False,
        "RSS, 250 pods, everything read": False,
    }


@pytest.mark.parametrize(("milli", "missed"), [(40.0, False), (40.5, True)])
def test_a_thousand_pods_cost_four_times_as_much_at_most(milli: float, missed: bool) -> None:
    [row] = bars([footprint(1000, milli, "policies")])
    assert (row.what, row.missed()) == ("CPU, 1000 pods, policies read", missed)


def test_batch_pods_ask_something_of_every_policy(tmp_path: Path) -> None:
    pods = [BatchPod(number) for number in range(3)]
    write_folder(str(tmp_path), pods, 2, POLICIES)
    found = Folder(str(tmp_path)).read()
    assert isinstance(found, Objects)
    assert (found.problems, found.warnings) == ((), ())
    assert found.settings is not None
    assert all(policy.enabled for policy in found.settings.policies.values())
    for pod in workloads_of(found.pods, ()):
        asked = {policy.name for policy in CATALOG if policy.concerns(pod)}
        # Pods ask nothing of rules, which choose pods, nor of the node's own ratio.
        assert asked == {policy.name for policy in CATALOG} - {"watermark_relief", "normalization"}


def test_the_rules_of_the_benchmark_are_followed_and_never_trigger(tmp_path: Path) -> None:
    write_folder(str(tmp_path), [BatchPod(0)], 2, POLICIES)
    write_rules(str(tmp_path))
    found = Folder(str(tmp_path)).read()
    assert isinstance(found, Objects)
    assert (found.problems, found.warnings) == ((), ())
    metrics = [rule.metric_rule.name for _, rule in found.ensurance.rules_for({})]
    assert metrics == ["cpu_total_usage", "cpu_total_usage", "memory_total_utilization"]
    assert all(
        found.ensurance.action(rule.action_name) for _, rule in found.ensurance.rules_for({})
    )


def test_the_agent_reads_the_pods_as_they_are_placed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = str(tmp_path_factory.mktemp("node"))
    pods = [BenchPod(number) for number in range(20)]
    write_folder(folder, pods, 2, threshold=90)
    found = Folder(folder).read()
    assert not isinstance(found, Gap)
    assert found.problems == ()
    assert found.settings is not None
    assert found.settings.policies["best_effort_share"].threshold == 90
    assert [pod.cgroup_uid for pod in found.pods] == [pod.uid for pod in pods]
    for pod, read in zip(pods, found.pods, strict=True):
        tier = Tier(pod.tier) if pod.tier else Tier.GUARANTEED
        assert read.tier is tier is qos_tier(read.resources)
        assert (pod_requests(read.resources).cpu == 0) is (tier is Tier.BESTEFFORT)
        ids = [each.id.rpartition("://")[2] for each in read.resources.containers]
        paths = pod.paths("kubepods")
        assert [container_id(path.rpartition("/")[2]) for path in paths] == ids
        assert {pod_uid(path.split("/")[-2]) for path in paths} == {read.cgroup_uid}


def test_the_crowds_pods_are_good_and_ask_for_three_things(tmp_path: Path) -> None:
    for number in (0, 7):
        (tmp_path / f"{number}.yaml").write_text(pod_text(BenchPod(number)))
    found = Folder(str(tmp_path)).read()
    assert isinstance(found, Objects)
    assert (found.problems, len(found.pods)) == ((), 2)
    for pod in workloads_of(found.pods, ()):
        assert pod.tier is Tier.BESTEFFORT
        assert pod.extended_limits["kubernetes.io/batch-cpu"] == 2000
        assert pod.burst == BurstRequest()
