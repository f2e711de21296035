"""The sections of the node's handlers: batch resources, QoS level, memory QoS, quota burst."""

from typing import Any

import pytest

from slackwater.model.problem import InvalidError
from slackwater.settings import batch_resources, memory_qos, qos_level, quota_burst
from slackwater.settings.batch_resources import BatchResourcesSettings, WeightRule
from slackwater.settings.document import DEFAULTS, with_texts
from slackwater.settings.memory_qos import MemoryFormula, MemoryQosSettings
from slackwater.settings.qos_level import QosLevelSettings, StandIn
from slackwater.settings.quota_burst import QuotaBurstSettings

NAME = "a domain, a slash and a name, such as example.com/batch-cpu"
OTHER = "another resource than cpuResource, which is"
MEMORY = "kubernetes.io/batch-memory"
PERCENT = "a whole number, 1 % to 100 %"


def batch(**said: Any) -> BatchResourcesSettings:
    return BatchResourcesSettings(**said)


def memory(**said: Any) -> MemoryQosSettings:
    return MemoryQosSettings(**said)


def burst(**said: Any) -> QuotaBurstSettings:
    return QuotaBurstSettings(**said)


def test_defaults() -> None:
    """Resource names as facts/volcano.md 3.1, the factor as the kubelet's."""
    assert BatchResourcesSettings() == batch(
        enabled=False,
        cpu_resource="kubernetes.io/batch-cpu",
        memory_resource="kubernetes.io/batch-memory",
        weight_formula=WeightRule.KUBELET,
    )
    assert QosLevelSettings() == QosLevelSettings(enabled=False, stand_in=StandIn.IDLE)
    assert MemoryQosSettings() == memory(
        enabled=False, formula=MemoryFormula.RATIOS, throttling_factor=90
    )
    assert QuotaBurstSettings() == burst(enabled=False, most=100)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, batch()),
        ({"enabled": True, "cpuResource": None}, batch(enabled=True)),
        ({"cpuResource": "example.com/cpu"}, batch(cpu_resource="example.com/cpu")),
        ({"memoryResource": "a/b"}, batch(memory_resource="a/b")),
        ({"weightFormula": "volcano"}, batch(weight_formula=WeightRule.VOLCANO)),
        (
            {"cpuResource": "kubernetes.io/batch-memory", "memoryResource": "a/b"},
            batch(cpu_resource="kubernetes.io/batch-memory", memory_resource="a/b"),
        ),
    ],
)
def test_batch_resources(said: object, expected: BatchResourcesSettings) -> None:
    assert batch_resources.read(said, "x") == expected


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"cpuResource": "cpu"}, f"x.cpuResource is 'cpu', but must be {NAME}"),
        ({"memoryResource": 5}, f"x.memoryResource is 5, but must be {NAME}"),
        (
            {"weightFormula": "linear"},
            "x.weightFormula is 'linear', but must be kubelet or volcano",
        ),
        ({"enabled": "yes"}, "x.enabled is 'yes', but must be true or false"),
        (
            {"cpuResource": "a/b", "memoryResource": "a/b"},
            f"x.memoryResource is 'a/b', but must be {OTHER} 'a/b'",
        ),
        (
            {"cpuResource": "kubernetes.io/batch-memory"},
            f"x.memoryResource is '{MEMORY}', but must be {OTHER} '{MEMORY}'",
        ),
    ],
)
def test_batch_resources_refuses(said: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        batch_resources.read(said, "x")
    assert str(caught.value) == sentence


def test_one_resource_is_not_two_over_a_base_either() -> None:
    base = batch(cpu_resource="a/b")
    with pytest.raises(InvalidError, match="another resource than cpuResource"):
        batch_resources.read({"memoryResource": "a/b"}, "x", base)
    with pytest.raises(InvalidError, match=r"batchResources\.memoryResource is 'kubernetes\.io"):
        with_texts(DEFAULTS, {"batchResources.cpuResource": "kubernetes.io/batch-memory"})


@pytest.mark.parametrize("word", [each.value for each in StandIn])
def test_qos_level(word: str) -> None:
    made = qos_level.read({"enabled": True, "standIn": word}, "x")
    assert made == QosLevelSettings(enabled=True, stand_in=StandIn(word))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"formula": "kubelet"}, memory(formula=MemoryFormula.KUBELET)),
        ({"throttlingFactor": 1}, memory(throttling_factor=1)),
        ({"throttlingFactor": 100, "enabled": True}, memory(enabled=True, throttling_factor=100)),
    ],
)
def test_memory_qos(said: object, expected: MemoryQosSettings) -> None:
    assert memory_qos.read(said, "x") == expected


@pytest.mark.parametrize("most", [1, 50, 100])
def test_quota_burst(most: int) -> None:
    assert quota_burst.read({"most": most}, "x") == burst(most=most)


@pytest.mark.parametrize(
    ("part", "said", "sentence"),
    [
        (qos_level, {"standIn": "on"}, "standIn is 'on', but must be idle, weight or none"),
        (qos_level, {"standIn": True}, "standIn is true, but must be idle, weight or none"),
        (
            memory_qos,
            {"formula": "ratio"},
            "formula is 'ratio', but must be ratios, kubelet or none",
        ),
        (memory_qos, {"throttlingFactor": 0}, f"throttlingFactor is 0, but must be {PERCENT}"),
        (memory_qos, {"throttlingFactor": 101}, f"throttlingFactor is 101, but must be {PERCENT}"),
        (memory_qos, {"throttlingFactor": 0.9}, f"throttlingFactor is 0.9, but must be {PERCENT}"),
        (quota_burst, {"most": 0}, f"most is 0, but must be {PERCENT}"),
        (quota_burst, {"most": 101}, f"most is 101, but must be {PERCENT}"),
        (quota_burst, {"enabled": 1}, "enabled is 1, but must be true or false"),
    ],
)
def test_what_is_refused(part: Any, said: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        part.read(said, "x")
    assert str(caught.value) == f"x.{sentence}"


def test_flags() -> None:
    made = with_texts(
        DEFAULTS,
        {
            "batchResources.enabled": "1",
            "batchResources.cpuResource": "example.com/cpu",
            "qosLevel.standIn": "weight",
            "memoryQos.throttlingFactor": "80",
            "quotaBurst.most": "50",
        },
    )
    assert made.batch_resources == batch(enabled=True, cpu_resource="example.com/cpu")
    assert made.qos_level.stand_in is StandIn.WEIGHT
    assert (made.memory_qos.throttling_factor, made.quota_burst.most) == (80, 50)
    assert (made.agent, made.best_effort_share) == (DEFAULTS.agent, DEFAULTS.best_effort_share)
