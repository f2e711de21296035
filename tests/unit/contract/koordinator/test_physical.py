"""An amplified Node in the machine's own units."""

import pytest

from slackwater.contract.crane.node_reserve import resources_of
from slackwater.contract.koordinator.physical import physical_node
from slackwater.contract.kubernetes import Node
from slackwater.model.gap import Gap
from slackwater.model.units import Bytes, MilliCpu

RAW = "node.koordinator.sh/raw-allocatable"
AMPLIFICATION = {"node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.50}'}
GIB = 1 << 30
CPUS = MilliCpu(12_000)


def node(annotations: dict[str, str], cpu: MilliCpu | Gap = CPUS) -> Node:
    memory = Bytes(16 * GIB)
    return Node("here", annotations=annotations, allocatable_cpu=cpu, allocatable_memory=memory)


@pytest.mark.parametrize(
    ("annotations", "cpu", "memory"),
    [
        ({}, 12_000, 16),
        (AMPLIFICATION, 12_000, 16),
        # Left behind: what is allocatable is raw again.
        ({RAW: '{"cpu":"8"}'}, 12_000, 16),
        ({RAW: '{"cpu":"8"}', **AMPLIFICATION}, 8_000, 16),
        ({RAW: '{"cpu":8,"memory":"8Gi"}', **AMPLIFICATION}, 8_000, 8),
        ({RAW: '{"memory":"8Gi"}', **AMPLIFICATION}, 12_000, 8),
        ({RAW: '{"cpu":"90","memory":"90Gi"}', **AMPLIFICATION}, 12_000, 16),
        ({RAW: '{"cpu":"many"}', **AMPLIFICATION}, 12_000, 16),
        ({RAW: "[}", **AMPLIFICATION}, 12_000, 16),
        ({RAW: "[]", **AMPLIFICATION}, 12_000, 16),
    ],
)
def test_raw_amounts_count_where_it_is_amplified(
    annotations: dict[str, str], cpu: int, memory: int
) -> None:
    found = physical_node(node(annotations))
    assert (found.allocatable_cpu, found.allocatable_memory) == (cpu, memory * GIB)


def test_what_pods_see_is_kept_beside_it() -> None:
    declared = node({RAW: '{"cpu":"8"}', **AMPLIFICATION})
    assert resources_of(physical_node(declared), declared).amplified_cpu == 12_000
    plain = node({})
    assert resources_of(physical_node(plain), plain).amplified_cpu is None
    unknown = node({RAW: '{"cpu":"8"}', **AMPLIFICATION}, Gap("not stated"))
    assert physical_node(unknown) == unknown
    assert resources_of(unknown, unknown).amplified_cpu is None
