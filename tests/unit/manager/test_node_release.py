"""What releasing a node changes in it; the rest is in tests/cluster/test_webhook.py."""

import msgspec
import pytest

from slackwater.contract.koordinator.amplification import RECORD_ANNOTATION
from slackwater.contract.koordinator.node_ratios import HELD_CONDITION
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    RATIO_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
)
from slackwater.manager.node_release import AnnotatedNode, release_patch

RECORD = '{"ratio":"{\\"cpu\\":1.5}","cpu":{"stored":"12","raw":"8"}}'


def node(cpu: str, **annotations: str) -> AnnotatedNode:
    plain = {
        "metadata": {"name": "n1", "resourceVersion": "7", "annotations": annotations},
        "status": {"allocatable": {"cpu": cpu}},
    }
    return msgspec.convert(plain, AnnotatedNode)


@pytest.mark.parametrize(
    ("cpu", "annotations", "expected"),
    [
        # Amplified by us; amplified, and meanwhile the kubelet stated another amount.
        ("12", {AMPLIFICATION_ANNOTATION: "{}", RECORD_ANNOTATION: RECORD}, {"cpu": "8"}),
        ("10", {AMPLIFICATION_ANNOTATION: "{}", RECORD_ANNOTATION: RECORD}, {}),
        # By Koordinator; not amplified at all.
        ("12", {RAW_ALLOCATABLE_ANNOTATION: '{"cpu":"8"}'}, {"cpu": "8"}),
        ("8", {RATIO_ANNOTATION: "1.50", AMPLIFICATION_ANNOTATION: '{"cpu":1.5}'}, {}),
    ],
)
def test_a_node_gets_its_true_amounts_and_loses_our_annotations(
    cpu: str, annotations: dict[str, str], expected: dict[str, str]
) -> None:
    assert release_patch(node(cpu, **annotations, others="stay")) == {
        "metadata": {"annotations": dict.fromkeys(annotations), "resourceVersion": "7"},
        "status": {"allocatable": expected},
    }


def test_a_condition_of_ours_goes_and_others_stay() -> None:
    plain = {
        "metadata": {"name": "n1", "resourceVersion": "7"},
        "status": {"conditions": [{"type": "Ready"}, {"type": HELD_CONDITION}]},
    }
    patch = release_patch(msgspec.convert(plain, AnnotatedNode))
    assert patch is not None
    assert patch["status"] == {
        "allocatable": {},
        "conditions": [{"type": HELD_CONDITION, "$patch": "delete"}],
    }


def test_a_node_without_anything_of_ours_is_left_alone() -> None:
    assert release_patch(node("8", others="stay")) is None
