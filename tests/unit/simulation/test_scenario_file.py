"""A scenario's file: what it may say, what it means, and one sentence for what it may not."""

from pathlib import Path
from typing import Any

import pytest

from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.problem import InvalidError
from slackwater.model.units import EXAMPLES, UNLIMITED, Micros, MilliCpu, Ratio
from slackwater.policies.catalog import SETTINGS
from slackwater.simulation.demand import (
    FOREVER,
    SECOND,
    Daily,
    Demand,
    Spike,
    Square,
    Steady,
    Steps,
    Sum,
)
from slackwater.simulation.scenario import Blind, Kill, NewSettings, Pressure, RivalWrite, Scenario
from slackwater.simulation.scenario_file import read_scenario, scenario_in

MINUTE = 60 * SECOND
POD = {"name": "web", "tier": "burstable", "demand": "1"}
BATCH = {"name": "batch", "tier": "besteffort", "demand": 2}


def written(**spec: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"cpus": 4, "duration": "10m"}
    return {"apiVersion": "slackwater.io/v1", "kind": "Scenario", "spec": base | spec}


def scenario(**spec: Any) -> Scenario:
    return scenario_in(written(**spec), "s.yaml")


def demand(said: object, seed: int = 0) -> Demand:
    (pod,) = scenario(pods=[{**POD, "demand": said}], seed=seed).pods
    return pod.demand


def refusal(document: object) -> str:
    with pytest.raises(InvalidError) as caught:
        scenario_in(document, "s.yaml")
    return str(caught.value)


def test_the_least_that_a_scenario_says() -> None:
    found = scenario()
    assert found.name == "s"
    assert (found.version, found.cpus, found.duration) == (CgroupVersion.V2, 4, 10 * MINUTE)
    assert (found.pods, found.events, found.system, found.seed) == ((), (), None, 0)
    assert found.objects.settings == SETTINGS.defaults


def test_everything_at_once() -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "3500m"}}}
    own = {
        "apiVersion": "slackwater.io/v1",
        "kind": "AgentSettings",
        "spec": {"bestEffortShare": {"threshold": 70, "jitter": 2}},
    }
    document = written(
        cgroup="v1",
        period="5s",
        seed=9,
        system="100m",
        settings={"bestEffortShare": {"enabled": True, "threshold": 60}},
        objects=[node, own],
        pods=[{**POD, "request": "500m", "limit": 2, "weight": 7, "from": "1m", "until": "2m"}],
    )
    found = scenario_in({**document, "metadata": {"name": "all"}}, "s.yaml")
    assert (found.name, found.version, found.seed) == ("all", CgroupVersion.V1, 9)
    assert found.system == Steady(MilliCpu(100))
    (pod,) = found.pods
    assert (pod.request, pod.limit, pod.weight) == (500, 2000, 7)
    assert (pod.starts, pod.ends, pod.tier) == (MINUTE, 2 * MINUTE, Tier.BURSTABLE)
    assert [n.allocatable_cpu for n in found.objects.nodes] == [3500]
    settings = found.objects.settings
    assert settings is not None
    assert settings.agent.period == 5 * SECOND
    share = settings.policies["best_effort_share"]
    # The scenario's own settings are said over those among its objects.
    assert (share.enabled, share.threshold, share.jitter) == (True, 60, 2)


def test_volcanos_configuration_is_an_ordinary_object() -> None:
    config = {
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-agent-configuration"},
        "data": {"colocation-config": '{"cpuThrottlingConfig": {"enable": true}}'},
    }
    assert scenario(objects=[config]).objects.colocation is not None


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("250m", Steady(MilliCpu(250))),
        (2, Steady(MilliCpu(2000))),
        ({"steady": 0.5}, Steady(MilliCpu(500))),
        ({"daily": {"mean": 2, "swing": 1}}, Daily(MilliCpu(2000), MilliCpu(1000))),
        (
            {"daily": {"mean": 2, "swing": 1, "period": "1h", "peak": "5m", "step": "10s"}},
            Daily(
                MilliCpu(2000),
                MilliCpu(1000),
                Micros(60 * MINUTE),
                Micros(5 * MINUTE),
                Micros(10 * SECOND),
            ),
        ),
        (
            {"spike": {"at": "1m", "height": 3, "for": "10s", "base": 1}},
            Spike(Micros(MINUTE), MilliCpu(3000), Micros(10 * SECOND), MilliCpu(1000)),
        ),
        (
            {"square": {"period": "1m", "high": 2}},
            Square(Micros(MINUTE), Ratio(50, 100), MilliCpu(2000)),
        ),
        (
            {"square": {"period": "1m", "duty": 20, "high": 2, "low": 1}},
            Square(Micros(MINUTE), Ratio(20, 100), MilliCpu(2000), MilliCpu(1000)),
        ),
        (
            {"steps": {"levels": [1, "200m"], "step": "500ms"}},
            Steps((MilliCpu(1000), MilliCpu(200)), Micros(500_000)),
        ),
        ({"sum": [1, {"steady": 2}]}, Sum((Steady(MilliCpu(1000)), Steady(MilliCpu(2000))))),
    ],
)
def test_shapes_of_demand(said: object, means: Demand) -> None:
    assert demand(said) == means


def test_noise_is_drawn_by_seed_and_pod_alone() -> None:
    said = {"noise": {"low": 100, "high": 200, "steps": 50}}
    assert isinstance(demand(said), Steps)
    assert demand(said, 1) == demand(said, 1)
    assert demand(said, 1) != demand(said, 2)
    alone = scenario(pods=[{**POD, "demand": said}]).pods[0]
    beside = scenario(pods=[BATCH, {**POD, "demand": said}]).pods[1]
    assert alone == beside
    two = demand({"sum": [said, said]})
    assert isinstance(two, Sum)
    assert two.parts[0] != two.parts[1]


def test_events_in_their_order() -> None:
    found = scenario(
        pods=[POD, BATCH],
        events=[
            {"at": "5m", "kind": "blind", "for": "30s"},
            {"at": "1m", "kind": "kill"},
            {"at": "2m", "kind": "kill", "down": "20s"},
            {"at": "3m", "kind": "pressure"},
            {"at": "4m", "kind": "rival-write", "target": "besteffort", "quota": "unlimited"},
            {"at": "6m", "kind": "rival-write", "target": "web", "quota": "1500m",
             "times": 3, "every": "2s"},
        ],
    )  # fmt: skip
    assert found.events == (
        Kill(Micros(MINUTE)),
        Kill(Micros(2 * MINUTE), Micros(20 * SECOND)),
        Pressure(Micros(3 * MINUTE)),
        RivalWrite(Micros(4 * MINUTE), "besteffort", UNLIMITED),
        Blind(Micros(5 * MINUTE), Micros(30 * SECOND)),
        *(RivalWrite(Micros(6 * MINUTE + n * 2 * SECOND), "web", MilliCpu(1500)) for n in range(3)),
    )


def test_settings_are_said_over_those_before() -> None:
    found = scenario(
        settings={"bestEffortShare": {"enabled": True}},
        events=[
            {"at": "2m", "kind": "settings", "settings": {"bestEffortShare": {"jitter": 5}}},
            {"at": "1m", "kind": "settings", "settings": {"bestEffortShare": {"threshold": 50}}},
        ],
    )
    first, second = found.events
    assert isinstance(first, NewSettings)
    assert isinstance(second, NewSettings)
    assert first.settings.policies["best_effort_share"].threshold == 50
    share = second.settings.policies["best_effort_share"]
    assert (share.enabled, share.threshold, share.jitter) == (True, 50, 5)


def test_pods_that_come_and_go_by_events() -> None:
    found = scenario(
        pods=[POD],
        events=[
            {"at": "1m", "kind": "pod-added", "pod": BATCH},
            {"at": "2m", "kind": "pod-removed", "pod": "web"},
            {"at": "3m", "kind": "pod-removed", "pod": "batch"},
        ],
    )
    assert found.events == ()
    assert [(pod.name, pod.starts, pod.ends) for pod in found.pods] == [
        ("web", 0, 2 * MINUTE),
        ("batch", MINUTE, 3 * MINUTE),
    ]
    assert scenario(pods=[POD]).pods[0].ends == FOREVER


QUANTITY = "must be a quantity"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"cpus": 0}, "s.yaml: spec.cpus is 0, but must be a whole number, 1 to 512"),
    ({"cpus": "4"}, "s.yaml: spec.cpus is '4', but must be a whole number"),
    ({"cpus": None}, "s.yaml: spec.cpus is missing, but must be a whole number, 1 to 512"),
    ({"duration": None}, "s.yaml: spec.duration is missing, but must be a duration such as"),
    ({"duration": "8d"}, "s.yaml: spec.duration is '8d', but must be a duration such as"),
    ({"duration": "169h"}, f"spec.duration is '169h', but must be {EXAMPLES}, 1s to 168h"),
    ({"duration": 10}, "s.yaml: spec.duration is 10, but must be a duration"),
    ({"cgroup": "v3"}, "s.yaml: spec.cgroup is 'v3', but must be one of v1, v2"),
    ({"period": "1ms"}, f"s.yaml: spec.period is '1ms', but must be {EXAMPLES}, 100ms to 1m"),
    ({"seed": -1}, "s.yaml: spec.seed is -1, but must be a whole number, 0 to"),
    ({"podz": []}, "a key of s.yaml: spec is 'podz', but must be one of cgroup, cpus,"),
    ({"settings": {"bestEffortShare": {"threshold": 0}}},
     "s.yaml: spec.settings.bestEffortShare.threshold is 0, but must be a whole number, 1 % to"),
    ({"settings": {"bestEfortShare": {}}},
     "a key of s.yaml: spec.settings is 'bestEfortShare', but must be one of agent,"),
    ({"settings": []}, "s.yaml: spec.settings is a list, but must be a mapping"),
    ({"objects": [{"kind": "Pod", "metadata": {"name": "x"}}]},
     "s.yaml: spec.objects[0] is a Pod, but must be an object of another kind"),
    ({"objects": [{"kind": "Node"}]}, "spec.objects[0]: metadata.name is missing"),
    ({"pods": {}}, "s.yaml: spec.pods is a mapping, but must be a list"),
    ({"pods": [{**POD, "name": "Web"}]}, "s.yaml: spec.pods[0].name is 'Web', but must be a name"),
    ({"pods": [{**POD, "name": "besteffort"}]}, "must be a name that is not a tier's"),
    ({"pods": [POD, POD]}, "s.yaml: spec.pods[1].name is 'web', but must be a name that no other"),
    ({"pods": [{**POD, "tier": "gold"}]},
     "s.yaml: spec.pods[0].tier is 'gold', but must be one of guaranteed, burstable, besteffort"),
    ({"pods": [{**POD, "tier": None}]}, "s.yaml: spec.pods[0].tier is missing, but must be one of"),
    ({"pods": [{**POD, "demand": None}]}, "s.yaml: spec.pods[0].demand is missing"),
    ({"pods": [{**POD, "request": "-1"}]}, "s.yaml: spec.pods[0].request is '-1', but must be a"),
    ({"pods": [{**BATCH, "request": 1}]}, "must be absent: a best-effort pod requests nothing"),
    ({"pods": [{**POD, "weight": 0}]}, "s.yaml: spec.pods[0].weight is 0, but must be a whole"),
    ({"pods": [{**POD, "from": "2m", "until": "1m"}]}, "s.yaml: spec.pods[0].until is '1m', but"),
    ({"pods": [{**POD, "colour": "red"}]}, "a key of s.yaml: spec.pods[0] is 'colour', but must"),
    ({"system": {}}, "s.yaml: spec.system is '', but must be a quantity or exactly one of steady,"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "said"), REFUSED)
def test_bad_values_are_one_sentence(spec: dict[str, Any], said: str) -> None:
    sentence = refusal(written(**spec))
    assert said in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("much", QUANTITY),
        ([1], QUANTITY),
        ({"wave": 1}, "is 'wave', but must be a quantity or exactly one of steady, daily, spike"),
        ({"steady": 1, "sum": []}, "is 'steady, sum', but must be a quantity or exactly one"),
        ({"steady": "x"}, "demand.steady is 'x', but must be a quantity"),
        ({"daily": {"mean": 1}}, "demand.daily.swing is missing"),
        ({"daily": {"mean": 1, "swing": 1, "pek": "1h"}}, "a key of s.yaml: spec.pods[0].demand."),
        ({"daily": {"mean": 1, "swing": 1, "step": "1ms"}}, "demand.daily.step is '1ms', but must"),
        ({"spike": {"height": 1, "for": "1s"}}, "demand.spike.at is missing"),
        ({"spike": {"at": "1s", "height": 1, "for": "0s"}}, "demand.spike.for is '0s', but must"),
        ({"square": {"period": "1s", "high": 1, "duty": 100}}, "square.duty is 100, but must be a"),
        ({"steps": {"levels": []}}, "steps.levels is a list of 0, but must be a list of 1 to"),
        ({"steps": {"levels": ["x"]}}, "steps.levels[0] is 'x', but must be a quantity"),
        (
            {"noise": {"low": 2, "high": 1}},
            "noise.high is 1000m, but must be at least low, which",
        ),
        ({"noise": {"high": 1, "steps": 0}}, "noise.steps is 0, but must be a whole number, 1 to"),
        ({"sum": []}, "demand.sum is a list, but must be a list of 1 to 16 demands"),
        ({"sum": [{"sum": [{"nope": 1}]}]}, "demand.sum[0].sum[0] is 'nope', but must be"),
    ],
)
def test_bad_demands(said: object, sentence: str) -> None:
    found = refusal(written(pods=[{**POD, "demand": said}]))
    assert sentence in found
    assert found.startswith(("s.yaml: spec.pods[0].demand", "a key of s.yaml"))


def test_sums_have_a_depth() -> None:
    said: object = 1
    for _ in range(12):
        said = {"sum": [said]}
    assert "at most 8 sums deep" in refusal(written(pods=[{**POD, "demand": said}]))


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        ({"at": "1m"}, "spec.events[0].kind is missing, but must be one of kill, rival-write,"),
        ({"at": "1m", "kind": "flood"}, "spec.events[0].kind is 'flood', but must be one of kill"),
        ({"kind": "kill"}, "spec.events[0].at is missing, but must be a duration such as"),
        ({"at": "11m", "kind": "kill"}, "spec.events[0].at is '11m', but must be at most 10m"),
        (
            {"at": "1m", "kind": "kill", "for": "1s"},
            "a key of s.yaml: spec.events[0] is 'for', but",
        ),
        ({"at": "1m", "kind": "blind"}, "spec.events[0].for is missing"),
        ({"at": "1m", "kind": "settings"}, "spec.events[0].settings is missing"),
        ({"at": "1m", "kind": {"a": 1}}, "spec.events[0].kind is a mapping, but must be one of"),
        (
            {"at": "1m", "kind": "settings", "settings": {"agent": {"period": 5}}},
            "s.yaml: spec.events[0].settings.agent.period is 5, but must be a duration",
        ),
        ({"at": "1m", "kind": "rival-write", "quota": 1}, "spec.events[0].target is missing"),
        (
            {"at": "1m", "kind": "rival-write", "target": "nobody", "quota": 1},
            "is 'nobody', but must be burstable, besteffort, or the name of a pod",
        ),
        (
            {"at": "1m", "kind": "rival-write", "target": "web", "quota": 0},
            "spec.events[0].quota is 0, but must be at least 1m, or unlimited",
        ),
        (
            {"at": "1m", "kind": "rival-write", "target": "web", "quota": 1, "times": 0},
            "spec.events[0].times is 0, but must be a whole number, 1 to 1000",
        ),
        ({"at": "1m", "kind": "pod-added"}, "spec.events[0].pod is missing"),
        ({"at": "1m", "kind": "pod-added", "pod": POD}, "must be a name that no other pod has"),
        ({"at": "1m", "kind": "pod-removed", "pod": "x"}, "is 'x', but must be the name of a pod"),
    ],
)
def test_bad_events(event: dict[str, Any], sentence: str) -> None:
    found = refusal(written(pods=[POD], events=[event]))
    assert sentence in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "s.yaml is a list, but must be a mapping"),
        ({"kind": "Scenario", "spec": {}}, "s.yaml: apiVersion is missing, but must be slackwater"),
        ({"apiVersion": "slackwater.io/v1", "kind": "Pod"}, "s.yaml: kind is 'Pod', but must be"),
        ({"apiVersion": "slackwater.io/v1", "kind": "Scenario"}, "s.yaml: spec is missing"),
        ({**written(), "status": {}}, "a key of s.yaml is 'status', but must be one of apiVersion"),
    ],
)
def test_bad_outlines(document: object, sentence: str) -> None:
    assert sentence in refusal(document)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "s.yaml is 0 documents, but must be one document"),
        ("a: 1\n---\nb: 2\n", "s.yaml is 2 documents"),
        ("a: [", "but must be YAML or JSON"),
        ("\tx", "must be YAML or JSON"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(InvalidError) as caught:
        read_scenario(str(path))
    assert sentence in str(caught.value)


def test_limits_on_size() -> None:
    many = [{**POD, "name": f"p{n}"} for n in range(501)]
    assert "spec.pods is a list of 501, but must be a list of at most 500" in refusal(
        written(pods=many)
    )
    rival = {"at": "1m", "kind": "rival-write", "target": "web", "quota": 1, "times": 600}
    sentence = refusal(written(pods=[POD], events=[rival, rival]))
    assert "spec.events is 1200, but must be at most 1000 events" in sentence
