"""examples/node: what a user copies is good, and does what its comments say."""

from pathlib import Path
from typing import Any

import msgspec

from slackwater.agent.effective_settings import (
    EffectiveSettings,
    resolve_settings,
    volcano_dialect,
)
from slackwater.agent.tick import TickMemory, tick
from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Micros
from slackwater.observation.objects.folder import Folder
from slackwater.observation.objects.object_set import Objects, own_node
from slackwater.observation.objects.workload_matching import workloads_of
from slackwater.policies.catalog import POLICIES
from tests.unit.policies.nodes import FREE, node

FOLDER = Path(__file__).parents[4] / "examples/node"
POD = "kubepods/besteffort/pod11111111-2222-4333-8444-00000000000{0}"


def objects() -> Objects:
    found = Folder(str(FOLDER)).read()
    assert isinstance(found, Objects)
    return found


def refs() -> list[CgroupRef]:
    found = []
    for number in (1, 2):
        path, owner = POD.format(number), POD.format(number).rpartition("/pod")[2]
        found.append(CgroupRef(path, 10 * number, Level.POD, Tier.BESTEFFORT, owner))
        inner = f"{path}/{number:064x}"
        found.append(CgroupRef(inner, 10 * number + 1, Level.CONTAINER, Tier.BESTEFFORT, owner))
    return found


def seen(**quota: Any) -> NodeSnapshot:
    groups = refs()
    readings = {
        ref.id: CgroupReading(
            ref, Micros(0), quota=quota.get("quota", FREE), burst=Micros(0), weight=1, idle=False,
            others={"memory-max": 2**62},
        )
        for ref in groups
    }  # fmt: skip
    plain = node(usage=200)
    return msgspec.structs.replace(
        plain,
        version=CgroupVersion.V2,
        workloads=workloads_of(objects().pods, tuple(groups)),
        readings={**plain.readings, **readings},
    )


def test_nothing_is_wrong_with_it() -> None:
    found = objects()
    assert (found.problems, found.warnings) == ((), ())
    assert {pod.name for pod in found.pods} == {"report", "encoder"}
    wishes = resolve_settings(
        found, own_node(found.nodes, "", ""), EffectiveSettings(), {}, volcano_dialect()
    )
    # There is no NodeQOS in the example, no ratio, and nothing is sold without a word.
    off = {"memory_qos", "watermark_relief", "oversold", "core_pinning", "normalization"}
    assert set(wishes.policies) == {policy.name for policy in POLICIES} - off


def granted(snapshot: NodeSnapshot) -> dict[tuple[str, str], Any]:
    found = objects()
    wishes = resolve_settings(
        found, own_node(found.nodes, "", ""), EffectiveSettings(), {}, volcano_dialect()
    )
    memory, policies = TickMemory(), wishes.policies
    done = tick(snapshot, memory, POLICIES, policies, wishes.agent)
    assert [line.remarks for line in done.story.told] == [()] * len(done.story.told)
    return {(grant.target.name(), grant.knob): grant.value for grant in done.story.grants}


def test_the_pods_get_what_their_comments_promise() -> None:
    found = granted(seen())
    inner, pod = f"{2:064x}", POD.format(2).rpartition("/")[2]
    assert found["besteffort", "quota"] == 600
    assert found[POD.format(1).rpartition("/")[2], "idle"] is True
    for name in (inner, pod):
        assert found[name, "quota"] == 500
        assert found[name, "memory-max"] == 2**30
        assert found[name, "weight"] > 1


def test_a_burst_of_20_ms_once_there_is_a_quota() -> None:
    found = granted(seen(quota=Bandwidth(Micros(50_000))))
    assert found[f"{2:064x}", "burst"] == 20_000
