"""examples/latency-objective: what a reader copies is read as it is meant."""

from pathlib import Path

from slackwater.observation.objects.folder import Folder
from slackwater.observation.objects.object_set import Objects
from slackwater.observation.objects.workload_matching import workloads_of
from slackwater.policies.ensurance.pod_selection import SelectionRules, select_pods
from slackwater.policies.ensurance.watermark_settings import (
    WatermarkReliefSettings,
    WatermarkRules,
    bind,
)

FOLDER = Path(__file__).parents[4] / "examples" / "latency-objective"


def read() -> Objects:
    found = Folder(str(FOLDER)).read()
    assert isinstance(found, Objects)
    return found


def test_nothing_is_wrong_with_it() -> None:
    found = read()
    assert found.problems == ()
    assert found.warnings == ()
    assert [pod.name for pod in found.pods] == ["encoder-1", "encoder-2", "shop"]


def test_one_rule_throttles_when_the_service_is_slow() -> None:
    rules = bind(WatermarkReliefSettings(), read().ensurance, {}, {})
    assert isinstance(rules, WatermarkRules)
    assert rules.remarks == ()
    (rule,) = rules.rules
    assert rule.key().title() == "NodeQOS/latency:http_request_duration_seconds:p90"
    assert rule.ratios() is not None
    assert not rule.evicts()


def test_it_touches_the_batch_pods_and_nobody_else() -> None:
    found = read()
    workloads = workloads_of(found.pods, ())
    chosen = select_pods(workloads, SelectionRules(found.ensurance.pod_qos), "throttle-batch")
    assert [pod.name for pod in chosen] == ["encoder-1", "encoder-2"]
