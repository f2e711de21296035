"""The sections of the agent and of its policies: defaults, bounds, and what is refused."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.decoding import read_over
from slackwater.contract.document import Field
from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros
from slackwater.policies.best_effort_share import Accounting, BestEffortShareSettings
from slackwater.policies.catalog import SETTINGS
from slackwater.policies.elastic_resources import ElasticResourcesSettings, WeightRule
from slackwater.policies.memory_qos import MemoryFormula, MemoryQosSettings
from slackwater.policies.qos_level import QosLevelSettings, StandIn
from slackwater.policies.quota_burst import QuotaBurstSettings
from slackwater.settings.agent_settings import AgentSettings

AGENT, SHARE = AgentSettings(), BestEffortShareSettings()


def read_agent(said: object, base: AgentSettings = AGENT) -> AgentSettings:
    return read_over(Field("", "x", said), base)


def read_share(said: object, base: BestEffortShareSettings = SHARE) -> BestEffortShareSettings:
    return read_over(Field("", "x", said), base)


def share(**said: Any) -> BestEffortShareSettings:
    return BestEffortShareSettings(**said)


def test_the_defaults_are_volcanos() -> None:
    """facts/volcano.md section 1.1, column "default when absent"."""
    settings = BestEffortShareSettings()
    assert settings == share(
        enabled=False,
        threshold=80,
        jitter=1,
        recover=10,
        recover_from=25,  # ours: Volcano has no such setting
        accounting=Accounting.USAGE,
    )


def test_the_agents_defaults() -> None:
    assert AgentSettings().period == 1_000_000
    assert AgentSettings().hold_for == 30_000_000


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, BestEffortShareSettings()),
        ({"enabled": True}, BestEffortShareSettings(enabled=True)),
        ({"threshold": 1}, share(threshold=1)),
        ({"threshold": 100}, share(threshold=100)),
        ({"jitter": 0}, share(jitter=0)),
        ({"jitter": 150}, share(jitter=150)),
        ({"recover": 1}, share(recover=1)),
        ({"recover": 150}, share(recover=150)),
        ({"recoverFrom": 1}, share(recover_from=1)),
        ({"recoverFrom": 100}, share(recover_from=100)),
        ({"accounting": "request"}, BestEffortShareSettings(accounting=Accounting.REQUEST)),
        ({"threshold": None, "enabled": None}, BestEffortShareSettings()),
        # Volcano ignores jitter and recover where the threshold is absent; that is a bug.
        ({"jitter": 5, "recover": 20}, share(jitter=5, recover=20)),
    ],
)
def test_best_effort_share(said: object, expected: BestEffortShareSettings) -> None:
    assert read_share(said) == expected


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"threshold": 0}, "x.threshold is 0, but must be a whole number, 1 % to 100 %"),
        ({"threshold": 101}, "x.threshold is 101, but must be a whole number, 1 % to 100 %"),
        ({"jitter": -1}, "x.jitter is -1, but must be a whole number, at least 0 %"),
        ({"recover": 0}, "x.recover is 0, but must be a whole number, at least 1 %"),
        ({"recoverFrom": 0}, "x.recoverFrom is 0, but must be a whole number, 1 % to 100 %"),
        ({"recoverFrom": 101}, "x.recoverFrom is 101, but must be a whole number, 1 % to 100 %"),
        (
            {"recoverFrom": "25%"},
            "x.recoverFrom is '25%', but must be a whole number, 1 % to 100 %",
        ),
        ({"enabled": 1}, "x.enabled is 1, but must be true or false"),
        ({"accounting": "x"}, "x.accounting is 'x', but must be one of usage, request"),
        (
            {"thresold": 80},
            (
                "a key of x is 'thresold', but must be one of enabled, threshold, jitter, recover, "
                "recoverFrom, accounting"
            ),
        ),
        ([], "x is a list, but must be a mapping"),
        (None, "x is missing, but must be a mapping"),
    ],
)
def test_best_effort_share_refuses(said: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_share(said)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("said", "attribute", "value"),
    [
        ({"period": "100ms"}, "period", 100_000),
        ({"period": "1m"}, "period", 60_000_000),
        ({"holdFor": "1s"}, "hold_for", 1_000_000),
        ({"holdFor": "10m"}, "hold_for", 600_000_000),
        ({"raiseDeadband": 0}, "raise_deadband", 0),
        ({"yieldAfter": 2}, "yield_after", 2),
        ({"keptTicks": 3600}, "kept_ticks", 3600),
    ],
)
def test_agent(said: object, attribute: str, value: int) -> None:
    assert getattr(read_agent(said), attribute) == value


@pytest.mark.parametrize(
    "said",
    [
        {"period": "99ms"},
        {"period": "61s"},
        {"period": 1},
        {"holdFor": "999ms"},
        {"holdFor": "601s"},
        {"raiseDeadband": 3},
        {"fightWithin": "31s"},
        {"yieldAfter": 1},
        {"hold_for": "1s"},
    ],
)
def test_agent_refuses(said: dict[str, object]) -> None:
    with pytest.raises(InvalidError, match=next(iter(said))):
        read_agent(said)


def test_what_is_not_said_keeps_the_base() -> None:
    base = share(enabled=True, threshold=60, jitter=3)
    assert read_share({"jitter": 4}, base) == msgspec.structs.replace(base, jitter=4)
    slow = AgentSettings(period=Micros(2_000_000))
    assert read_agent({}, slow) == slow


# --- the policies that act on pods


NAME = "a domain, a slash and a name, such as example.com/batch-cpu"
OTHER = "another resource than cpuResource, which is"
MEMORY = "kubernetes.io/batch-memory"
PERCENT = "a whole number, 1 % to 100 %"


def batch(**said: Any) -> ElasticResourcesSettings:
    return ElasticResourcesSettings(**said)


def memory(**said: Any) -> MemoryQosSettings:
    return MemoryQosSettings(**said)


def burst(**said: Any) -> QuotaBurstSettings:
    return QuotaBurstSettings(**said)


def test_defaults() -> None:
    """Resource names as facts/volcano.md 3.1, the factor as the kubelet's."""
    assert ElasticResourcesSettings() == batch(
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
def test_elastic_resources(said: object, expected: ElasticResourcesSettings) -> None:
    assert read_over(Field("", "x", said), ElasticResourcesSettings()) == expected


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"cpuResource": "cpu"}, f"x.cpuResource is 'cpu', but must be {NAME}"),
        ({"memoryResource": 5}, f"x.memoryResource is 5, but must be {NAME}"),
        (
            {"weightFormula": "linear"},
            "x.weightFormula is 'linear', but must be one of kubelet, volcano",
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
def test_elastic_resources_refuses(said: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_over(Field("", "x", said), ElasticResourcesSettings())
    assert str(caught.value) == sentence


def test_one_resource_is_not_two_over_a_base_either() -> None:
    base = batch(cpu_resource="a/b")
    with pytest.raises(InvalidError, match="another resource than cpuResource"):
        read_over(Field("", "x", {"memoryResource": "a/b"}), base)
    with pytest.raises(InvalidError, match=r"elasticResources\.memoryResource is 'kubernetes\.io"):
        SETTINGS.with_texts(None, {"elasticResources.cpuResource": "kubernetes.io/batch-memory"})


@pytest.mark.parametrize("word", [each.value for each in StandIn])
def test_qos_level(word: str) -> None:
    made = read_over(Field("", "x", {"enabled": True, "standIn": word}), QosLevelSettings())
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
    assert read_over(Field("", "x", said), MemoryQosSettings()) == expected


@pytest.mark.parametrize("most", [1, 50, 100])
def test_quota_burst(most: int) -> None:
    assert read_over(Field("", "x", {"most": most}), QuotaBurstSettings()) == burst(most=most)


@pytest.mark.parametrize(
    ("section", "said", "sentence"),
    [
        (
            QosLevelSettings,
            {"standIn": "on"},
            "standIn is 'on', but must be one of idle, weight, none",
        ),
        (
            QosLevelSettings,
            {"standIn": True},
            "standIn is true, but must be one of idle, weight, none",
        ),
        (
            MemoryQosSettings,
            {"formula": "ratio"},
            "formula is 'ratio', but must be one of ratios, kubelet, none",
        ),
        (
            MemoryQosSettings,
            {"throttlingFactor": 0},
            f"throttlingFactor is 0, but must be {PERCENT}",
        ),
        (
            MemoryQosSettings,
            {"throttlingFactor": 101},
            f"throttlingFactor is 101, but must be {PERCENT}",
        ),
        (
            MemoryQosSettings,
            {"throttlingFactor": 0.9},
            f"throttlingFactor is 0.9, but must be {PERCENT}",
        ),
        (QuotaBurstSettings, {"most": 0}, f"most is 0, but must be {PERCENT}"),
        (QuotaBurstSettings, {"most": 101}, f"most is 101, but must be {PERCENT}"),
        (QuotaBurstSettings, {"enabled": 1}, "enabled is 1, but must be true or false"),
    ],
)
def test_what_is_refused(section: type[msgspec.Struct], said: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_over(Field("", "x", said), section())
    assert str(caught.value) == f"x.{sentence}"


def test_flags() -> None:
    made = SETTINGS.with_texts(
        None,
        {
            "elasticResources.enabled": "1",
            "elasticResources.cpuResource": "example.com/cpu",
            "qosLevel.standIn": "weight",
            "memoryQos.throttlingFactor": "80",
            "quotaBurst.most": "50",
        },
    )
    assert made.policies["elastic_resources"] == batch(enabled=True, cpu_resource="example.com/cpu")
    assert made.policies["qos_level"].stand_in is StandIn.WEIGHT
    assert (made.policies["memory_qos"].throttling_factor, made.policies["quota_burst"].most) == (
        80,
        50,
    )
    assert (made.agent, made.policies["best_effort_share"]) == (
        AgentSettings(),
        BestEffortShareSettings(),
    )


def test_recordings_hold_settings_by_the_names_of_their_fields() -> None:
    """And those of a version with more fields can be read."""
    held = msgspec.json.encode(AgentSettings())
    assert b'"hold_for":30000000' in held
    more = held.replace(b"{", b'{"unheard_of":1,', 1)
    assert msgspec.json.decode(more, type=AgentSettings) == AgentSettings()
