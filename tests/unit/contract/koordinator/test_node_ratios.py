"""What should stand on a node: annotations, what holds them back, cuts that strand pods."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.koordinator.node_ratios import (
    CPU,
    FORCE_ANNOTATION,
    MEMORY,
    Amounts,
    NodeFacts,
    NodeRatios,
    decide_ratios,
    raw_allocatable,
)
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    AMPLIFICATION_KEY,
    ENABLED_LABEL,
    NORMALIZATION_KEY,
    RATIO_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
    CpuBasicInfo,
    Hundredths,
)
from slackwater.contract.koordinator.slo_config import SloConfig, SloConfigName, read_slo_config
from slackwater.contract.kubernetes import ConfigMap
from slackwater.model.gap import Gap

NAME = SloConfigName()
MODEL = "Fast(R) CPU @ 3.10GHz"
M = {
    MODEL: {
        "baseRatio": 1.5,
        "hyperThreadEnabledRatio": 1.0,
        "turboEnabledRatio": 1.65,
        "hyperThreadTurboEnabledRatio": 1.1,
    }
}
BOTH = CpuBasicInfo(MODEL, hyper_thread_enabled=True, turbo_enabled=True)
BASE = CpuBasicInfo(MODEL)


def config(
    normalization: object = None, amplification: object = None, before: SloConfig | None = None
) -> SloConfig:
    """A text is the key's value as it is; None leaves the key out."""
    stated = {NORMALIZATION_KEY: normalization, AMPLIFICATION_KEY: amplification}
    data = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in stated.items()
        if value is not None
    }
    return read_slo_config(ConfigMap(NAME.namespace, NAME.name, data), NAME, before)


def node(
    info: CpuBasicInfo | Gap = BOTH,
    label: str | None = None,
    cpu: int = 16_000,
    labels: Mapping[str, str] | None = None,
    **annotations: str,
) -> NodeFacts:
    """Annotations by short names."""
    names = {
        "ratio": RATIO_ANNOTATION,
        "amplification": AMPLIFICATION_ANNOTATION,
        "raw": RAW_ALLOCATABLE_ANNOTATION,
        "force": FORCE_ANNOTATION,
    }
    stated = {names[key]: value for key, value in annotations.items()}
    said = {**(labels or {}), **({} if label is None else {ENABLED_LABEL: label})}
    return NodeFacts("n1", said, stated, {CPU: cpu, MEMORY: 64 << 30}, info)


def decide(said: SloConfig, facts: NodeFacts, requested: Amounts | None = None) -> NodeRatios:
    return decide_ratios(said, facts, lambda: requested or {})


def written(said: SloConfig, facts: NodeFacts) -> tuple[str | None, str | None]:
    """Both annotations as they stand afterwards."""
    after: dict[str, str | None] = {**facts.annotations, **decide(said, facts).annotations}
    return after.get(RATIO_ANNOTATION), after.get(AMPLIFICATION_ANNOTATION)


ON: dict[str, Any] = {"enable": True, "ratioModel": M}
OFF: dict[str, Any] = {"enable": False, "ratioModel": M}
XXX = [{"nodeSelector": {"matchLabels": {"xxx": "yyy"}}, "enable": True, "ratioModel": M}]
#: Numbers are those of facts/koordinator.md, section 7.
ROWS: dict[str, tuple[SloConfig, NodeFacts, str | None, str | None]] = {
    "1: both on": (config(ON), node(), "1.10", '{"cpu":1.10}'),
    "2: hyper-threads": (config(ON), node(CpuBasicInfo(MODEL, True)), "1.00", None),
    "3: turbo": (config(ON), node(CpuBasicInfo(MODEL, False, True)), "1.65", '{"cpu":1.65}'),
    "4: neither": (config(ON), node(BASE), "1.50", '{"cpu":1.50}'),
    "5: no model, no default": (config({"enable": True}), node(), None, None),
    "7: no fallback to the base": (
        config({"enable": True, "ratioModel": {MODEL: {"baseRatio": 1.5}}}),
        node(),
        None,
        None,
    ),
    "9: default": (config({"enable": True, "defaultRatio": 2.5}), node(), "2.50", '{"cpu":2.50}'),
    "11: empty entry, default": (
        config({"enable": True, "defaultRatio": 2.2, "ratioModel": {MODEL: {}}}),
        node(),
        "2.20",
        '{"cpu":2.20}',
    ),
    "13: 0.82": (config({"enable": True, "defaultRatio": 0.82}), node(), None, None),
    "15: the label over the strategy": (config(OFF), node(label="true"), "1.10", '{"cpu":1.10}'),
    "16: off by label": (config(ON), node(label="false"), "1.00", None),
    "17: odd label": (config(ON), node(label="{]", ratio="1.30"), "1.30", '{"cpu":1.30}'),
    "19: by selector": (
        config({**OFF, "nodeConfigs": XXX}),
        node(labels={"xxx": "yyy"}),
        "1.10",
        '{"cpu":1.10}',
    ),
    "20: not by selector": (config({**OFF, "nodeConfigs": XXX}), node(), None, None),
    "27: nothing": (config(), node(), None, None),
    "29: cpu and memory": (
        config(
            {"enable": True, "defaultRatio": 1.2},
            {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 2.5}},
        ),
        node(),
        "1.20",
        '{"cpu":1.80,"memory":2.50}',
    ),
    "31: below one, and storage": (
        config(
            {"enable": True, "defaultRatio": 1.5},
            {
                "enable": True,
                "resourceAmplificationRatio": {"storage": 1.8, "memory": 3.5, "cpu": 0.8},
            },
        ),
        node(),
        "1.50",
        '{"cpu":1.20,"memory":3.50,"storage":1.80}',
    ),
    "33: storage below one": (
        config(
            {"enable": True, "defaultRatio": 1.5},
            {"enable": True, "resourceAmplificationRatio": {"storage": 0.5}},
        ),
        node(amplification='{"cpu":1.30}'),
        "1.50",
        '{"cpu":1.30}',
    ),
    "35: no item": (config(), node(amplification='{"cpu":1.22}'), None, None),
    "amplification alone": (
        config(None, {"enable": True, "resourceAmplificationRatio": {"memory": 1.5}}),
        node(),
        None,
        '{"memory":1.50}',
    ),
    "79: no topology": (
        config(ON),
        node(Gap("there is no NodeResourceTopology n1"), "true", ratio="1.30"),
        "1.30",
        '{"cpu":1.30}',
    ),
    "a step of 0.01": (
        config({"enable": True, "defaultRatio": 1.21}),
        node(ratio="1.20", amplification='{"cpu":1.20}'),
        "1.21",
        '{"cpu":1.21}',
    ),
    "a default needs no topology": (
        config({"enable": True, "defaultRatio": 1.3}),
        node(Gap("there is none")),
        "1.30",
        '{"cpu":1.30}',
    ),
    "switched off again": (
        config(OFF),
        node(ratio="1.10", amplification='{"cpu":1.10}'),
        "1.00",
        None,
    ),
    "never on": (config(OFF), node(), None, None),
    "the key is gone": (config(), node(label="true", ratio="1.10"), "1.00", None),
    "the ConfigMap is gone": (
        read_slo_config(None, NAME),
        node(ratio="1.10", amplification='{"cpu":1.10}'),
        "1.00",
        None,
    ),
    "somebody's ratio is put right": (config(ON), node(ratio="abc"), "1.10", '{"cpu":1.10}'),
    "an odd one stays where nothing can be chosen": (
        config({"enable": True}),
        node(ratio="abc", amplification='{"cpu":1.30}'),
        "abc",
        '{"cpu":1.30}',
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_annotations_that_stand_there_afterwards(row: str) -> None:
    said, facts, ratio, amplification = ROWS[row]
    assert written(said, facts) == (ratio, amplification)


@given(st.integers(100, 500), st.integers(100, 500))
def test_every_other_ratio_is_written(before: int, after: int) -> None:
    said = config({"enable": True, "defaultRatio": after / 100})
    facts = node(ratio=f"{before // 100}.{before % 100:02}")
    assert written(said, facts)[0] == f"{after // 100}.{after % 100:02}"


@pytest.mark.parametrize(
    ("said", "facts", "problem"),
    [
        (config({"enable": True}), node(), f"has no CPU model {MODEL!r}"),
        (config(ON), node(label="{]"), f"label {ENABLED_LABEL} is '{{]', but must be true or"),
        (
            config({"enable": True, "defaultRatio": 0.82}),
            node(),
            "defaultRatio is 0.82, but must be a number from 1.00 to 5.00",
        ),
        (config(ON), node(Gap("there is no topology")), "there is no topology"),
        (
            config(),
            node(label="true"),
            (
                f"label {ENABLED_LABEL} is true, but ConfigMap "
                "koordinator-system/slo-controller-config has no cpu-normalization-config"
            ),
        ),
        (
            read_slo_config(None, NAME),
            node(label="true"),
            "is true, but there is no ConfigMap koordinator-system/slo-controller-config",
        ),
        (
            config(ON, {"enable": True, "resourceAmplificationRatio": {"storage": 0.5}}),
            node(),
            (
                "resourceAmplificationRatio['storage'] is 0.5, but must be a number of at least "
                "1.00 (the cluster's strategy)"
            ),
        ),
        (config(ON, "["), node(), "must be JSON"),
    ],
)
def test_what_holds_a_ratio_back_is_a_sentence(
    said: SloConfig, facts: NodeFacts, problem: str
) -> None:
    assert problem in decide(said, facts).problem


@pytest.mark.parametrize("model", ["x\ny", "Ω\u202e", "a'b\"c", "%s{0}", "", "x" * 5000])
def test_a_model_with_odd_characters_is_one_short_line(model: str) -> None:
    problem = decide(config(ON), node(CpuBasicInfo(model))).problem
    assert "has no CPU model" in problem
    assert problem.isprintable()
    assert len(problem) < 300
    known = {"enable": True, "ratioModel": {model: {"baseRatio": 1.3}}}
    assert written(config(known), node(CpuBasicInfo(model)))[0] == "1.30"


def test_the_last_good_configuration_stays() -> None:
    good = config(ON, {"enable": True, "resourceAmplificationRatio": {"memory": 1.5}})
    bad = config("{", {"enable": False}, good)
    assert bad.normalization == good.normalization
    assert list(bad.problems) == [NORMALIZATION_KEY]
    # The other key counts as it stands now.
    assert written(bad, node()) == ("1.10", '{"cpu":1.10}')
    assert config("{", None, bad).normalization == good.normalization
    assert config(ON, None, bad).problems == {}


def test_a_bad_one_after_none_at_all_switches_nothing() -> None:
    first = config("{")
    assert isinstance(first.normalization, Gap)
    assert decide(first, node(ratio="1.30")).annotations == {
        AMPLIFICATION_ANNOTATION: '{"cpu":1.30}'
    }


FULL = {CPU: 20_000, MEMORY: 32 << 30}


def cut(label: str = "false", **annotations: str) -> NodeFacts:
    """16 CPUs, amplified to 24."""
    stated: dict[str, Any] = {"ratio": "1.50", "amplification": '{"cpu":1.50}'}
    return node(BASE, label, 24_000, **{**stated, "raw": '{"cpu":"16"}', **annotations})


def test_a_cut_that_would_strand_pods_is_refused_with_the_numbers() -> None:
    found = decide(config(ON), cut(), FULL)
    assert found.refused
    assert found.annotations == {}
    assert (found.ratio, found.amplification) == (150, {"cpu": 150})
    assert (found.raw, found.amplified) == ({CPU: 16_000}, {CPU: 24_000})
    assert found.problem == (
        "the amplification ratio of cpu stays 1.50: the node's pods request 20000m, and at 1.00 it "
        "would have 16000m (16000m x 1.00); move pods away, or force it with the annotation "
        "node.slackwater.io/force-normalization=true"
    )


@pytest.mark.parametrize(
    ("facts", "requested"),
    [
        (cut(force="true"), FULL),
        (cut(), {CPU: 16_000}),
        (cut(), {}),
        (cut(amplification="{]"), FULL),
        (cut("true"), {CPU: 30_000}),
    ],
    ids=["forced", "it fits", "no pods", "nothing is known to be amplified", "no cut"],
)
def test_other_cuts_are_not_refused(facts: NodeFacts, requested: Amounts) -> None:
    found = decide(config(ON), facts, requested)
    assert not found.refused
    assert RATIO_ANNOTATION in found.annotations


def test_a_cut_of_memory_is_refused_too() -> None:
    facts = node(amplification='{"memory":2.00}', raw='{"cpu":"16","memory":"16Gi"}')
    found = decide(config(), facts, FULL)
    assert found.refused
    assert "of memory stays 2.00: the node's pods request 32.0Gi, and at 1.00" in found.problem


def test_a_smaller_cut_that_fits_is_written() -> None:
    said = config({"enable": True, "defaultRatio": 1.25})
    assert written(said, cut("true")) == ("1.25", '{"cpu":1.25}')
    assert not decide(said, cut("true"), FULL).refused
    assert decide(said, cut("true"), {CPU: 20_001}).refused


def test_pods_are_counted_only_for_a_cut() -> None:
    def never() -> Amounts:
        raise AssertionError

    assert not decide_ratios(config(ON), node(), never).refused


@pytest.mark.parametrize("raw", ["{", "[]", '{"cpu":"x"}', '{"cpu":-1}'])
def test_a_raw_amount_that_cannot_be_read_holds_a_cut(raw: str) -> None:
    found = decide(config(ON), cut(raw=raw), {})
    assert found.refused
    assert "not known whether its pods would still fit" in found.problem
    # Nothing else depends on it.
    assert not decide(config(ON), node(raw=raw)).problem


def test_raw_amounts_are_those_of_the_annotation() -> None:
    assert raw_allocatable(node(raw='{"cpu":"7910m","memory":"65536Mi"}')) == {
        CPU: 7910,
        MEMORY: 65536 << 20,
    }
    assert raw_allocatable(node(cpu=4000)) == {CPU: 4000, MEMORY: 64 << 30}


def test_what_a_node_would_have() -> None:
    found = decide(config({"enable": True, "defaultRatio": 1.13}), node(cpu=3000))
    assert found.ratio == Hundredths(113)
    assert (found.raw[CPU], found.amplified[CPU]) == (3000, 3390)
    assert found.amplified[MEMORY] == 64 << 30
