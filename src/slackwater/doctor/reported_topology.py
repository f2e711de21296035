"""What an agent in a cluster reports as its node's NodeResourceTopology, as doctor shows it."""

from slackwater.contract.koordinator.topology import (
    NO_POLICY,
    format_basic_info,
    zone_name,
)
from slackwater.doctor.doctor_report import TopologySection, ZoneRow
from slackwater.model.gap import Gap
from slackwater.observation.host import Roots
from slackwater.observation.node_topology import TopologyReader


def describe_topology(roots: Roots) -> TopologySection:
    facts = TopologyReader(roots).read()
    if isinstance(facts, Gap):
        return TopologySection(None, NO_POLICY, (), facts.reason)
    zones = tuple(
        ZoneRow(zone_name(each), each.cpus, each.memory, dict(each.hugepages))
        for each in facts.zones
    )
    return TopologySection(format_basic_info(facts.info), facts.policy, zones)
