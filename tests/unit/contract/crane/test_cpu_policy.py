"""Both annotations about CPUs, and which of them counts."""

import pytest

from slackwater.contract.crane.cpu_policy import (
    CPU_MANAGER,
    CPU_POLICY,
    cpu_policy,
    said_by,
    word_for,
)
from slackwater.model.cpus import CpuPolicy
from slackwater.model.gap import Gap


@pytest.mark.parametrize(
    ("annotations", "policy"),
    [
        ({}, None),
        ({"volcano.sh/qos-level": "BE"}, None),
        ({CPU_MANAGER: "none"}, CpuPolicy.NONE),
        ({CPU_MANAGER: "share"}, CpuPolicy.SHARE),
        ({CPU_MANAGER: "exclusive"}, CpuPolicy.EXCLUSIVE),
        ({CPU_POLICY: "none"}, CpuPolicy.NONE),
        ({CPU_POLICY: "exclusive"}, CpuPolicy.EXCLUSIVE),
        ({CPU_POLICY: "immovable"}, CpuPolicy.SHARE),
        ({CPU_POLICY: "exclusive", CPU_MANAGER: "share"}, CpuPolicy.SHARE),
        ({CPU_POLICY: "anything", CPU_MANAGER: "none"}, CpuPolicy.NONE),
    ],
)
def test_policy_of_annotations(annotations: dict[str, str], policy: CpuPolicy | None) -> None:
    assert cpu_policy(annotations) is policy


@pytest.mark.parametrize(
    ("annotations", "key"),
    [
        ({}, ""),
        ({CPU_POLICY: "immovable"}, CPU_POLICY),
        ({CPU_POLICY: "exclusive", CPU_MANAGER: "a typo"}, CPU_MANAGER),
    ],
)
def test_which_annotation_counts(annotations: dict[str, str], key: str) -> None:
    assert said_by(annotations) == key


def test_each_annotation_has_its_own_words() -> None:
    for key in (CPU_MANAGER, CPU_POLICY):
        for policy in CpuPolicy:
            assert cpu_policy({key: word_for(key, policy)}) is policy


@pytest.mark.parametrize(
    ("key", "word", "words"),
    [
        (CPU_MANAGER, "Exclusive", "none, share, exclusive"),
        (CPU_MANAGER, "", "none, share, exclusive"),
        (CPU_MANAGER, "immovable", "none, share, exclusive"),
        (CPU_POLICY, "share", "none, exclusive, immovable"),
        (CPU_POLICY, "numa", "none, exclusive, immovable"),
    ],
)
def test_other_words_are_one_sentence(key: str, word: str, words: str) -> None:
    refused = cpu_policy({key: word})
    assert isinstance(refused, Gap)
    assert key in refused.reason
    assert f"'{word}'" in refused.reason
    assert words in refused.reason
    assert "\n" not in refused.reason
