"""Claims of containers whose CPUs cannot be written are refused, with the reason; and who cannot be
kept off the CPUs of others is told."""

from collections.abc import Mapping

import msgspec

from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.cpus import CpuPolicy, CpuSet, KubeletCpus
from slackwater.model.decision import Because, CpuClaim
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.resolution.placement import Placer, ResolvedClaims, place_claims
from tests.unit.resolution.machines import machine

AT = Micros(0)
KUBEPODS = CgroupRef("kubepods", 1, Level.NODE)
WITH = CgroupRef("kubepods/pod1/a", 2, Level.CONTAINER)
WITHOUT = CgroupRef("kubepods/pod2/b", 3, Level.CONTAINER)
ASKED = Because("annotation", "exclusive", "1 CPU by its limit")


def claim(ref: CgroupRef) -> CpuClaim:
    return CpuClaim(ref, "default/pod", "main", 1, CpuPolicy.EXCLUSIVE, ASKED, "core_pinning")


def test_a_group_without_the_file_gets_no_cpus_and_takes_none() -> None:
    """cgroup v2 has cpuset.cpus only where the parent hands the controller on."""
    absent = Gap("cpuset.cpus does not exist here")
    found: dict[CgroupRef, CpuSet | Gap] = {KUBEPODS: CpuSet(), WITH: CpuSet(), WITHOUT: absent}
    snapshot = NodeSnapshot(
        1, AT, AT, MilliCpu(2000), MilliCpu(0), KUBEPODS, {},
        readings={ref.id: CgroupReading(ref, AT, cpus=cpus) for ref, cpus in found.items()},
        version=CgroupVersion.V2,
        topology=machine(cores=2),
        reserved_cpus=CpuSet.of((0,)),
        kubelet_cpus=KubeletCpus("none"),
    )  # fmt: skip
    placed = place_claims(snapshot, [claim(WITHOUT), claim(WITH)])
    assert placed.placement is not None
    by_group = {each.claim.target: each for each in placed.placement.claims}
    assert by_group[WITH].cpus == CpuSet.of((1,)), "the only one that can be held"
    assert by_group[WITHOUT].cpus == CpuSet()
    assert by_group[WITHOUT].refused == (
        "CPUs cannot be set here (cpuset.cpus does not exist here), so main runs on the CPUs that "
        "nobody holds alone"
    )


BELOW = "a group below has other CPUs"


def seen(
    stands: Mapping[CgroupRef, str], refused: Mapping[CgroupRef, str], cores: int = 2
) -> NodeSnapshot:
    """On cgroup v1: what each group reads, and whose CPUs could not be written."""
    refs = {KUBEPODS: f"0-{cores - 1}", **stands}
    readings = {
        ref.id: CgroupReading(ref, AT, quota=Bandwidth(Micros(100_000)), cpus=CpuSet.parse(text))
        for ref, text in refs.items()
    }
    return NodeSnapshot(
        1, AT, AT, MilliCpu(1000 * cores), MilliCpu(0), KUBEPODS, {},
        readings=readings,
        version=CgroupVersion.V1,
        topology=machine(cores=cores),
        reserved_cpus=CpuSet.of((0,)),
        kubelet_cpus=KubeletCpus("none"),
        refused_cpus={ref.id: why for ref, why in refused.items()},
    )  # fmt: skip


def sets(found: ResolvedClaims) -> dict[CgroupRef, str]:
    return {
        each.target: each.value.format() for each in found.intents if isinstance(each.value, CpuSet)
    }


def test_a_set_that_the_kernel_refuses_is_not_told_as_given() -> None:
    """Nobody makes room, the quota stays, and it is tried again in each tick."""
    found = place_claims(seen({WITH: "0-1", WITHOUT: "0-1"}, {WITH: BELOW}), [claim(WITH)])
    assert found.placement is not None
    [placed] = found.placement.claims
    assert placed.cpus == CpuSet()
    assert placed.refused == (
        f"CPUs cannot be set here ({BELOW}), so main runs on the CPUs that nobody holds alone"
    )
    assert found.placement.common == CpuSet.parse("0-1")
    assert sets(found) == {WITH: "1"}
    assert not [each for each in found.intents if each.knob == QUOTA.name]


def test_a_refusal_is_over_when_the_group_has_its_cpus() -> None:
    """Whoever wrote them."""
    found = place_claims(seen({WITH: "1", WITHOUT: "0-1"}, {WITH: BELOW}), [claim(WITH)])
    assert sets(found) == {WITH: "1", WITHOUT: "0"}
    assert [each.target for each in found.intents if each.knob == QUOTA.name] == [WITH]


def test_cpus_that_cannot_be_given_to_one_are_anothers() -> None:
    first, second = claim(WITH), claim(WITHOUT)
    found = place_claims(seen({WITH: "0-1", WITHOUT: "0-1"}, {WITH: BELOW}), [first, second])
    assert found.placement is not None
    by_group = {each.claim.target: each for each in found.placement.claims}
    assert by_group[WITHOUT].cpus == CpuSet.of((1,))
    assert "1 CPU of its own is not free" in by_group[WITH].refused


def test_who_cannot_be_kept_off_is_told_of_the_holder() -> None:
    stuck = seen({WITH: "1", WITHOUT: "0-1"}, {WITHOUT: BELOW})
    found = place_claims(stuck, [claim(WITH)])
    assert found.placement is not None
    [placed] = found.placement.claims
    assert placed.cpus == CpuSet.of((1,))
    assert placed.shared == f"kubepods/pod2/b could not be kept off CPUs of main ({BELOW})"
    assert sets(found)[WITHOUT] == "0", "it is tried again"
    inner = WorkloadContainer("c", WITHOUT, MilliCpu(0), UNLIMITED)
    pod = Workload("2", "job", "batch", Tier.GUARANTEED, Gap("none"), containers=(inner,))
    named = msgspec.structs.replace(stuck, workloads=(pod,))
    [placed] = place_claims(named, [claim(WITH)]).placement.claims  # type: ignore[union-attr]
    assert placed.shared.startswith("batch/job/c could not be kept off")


def test_only_the_first_of_many_are_named() -> None:
    others = [CgroupRef(f"kubepods/pod9/c{n}", 100 + n, Level.CONTAINER) for n in range(9)]
    stands = {WITH: "1"} | dict.fromkeys(others, "0-1")
    found = place_claims(seen(stands, dict.fromkeys(others, BELOW)), [claim(WITH)])
    assert found.placement is not None
    [placed] = found.placement.claims
    assert placed.shared.count("could not be kept off") == 3
    assert placed.shared.endswith("; and 6 more")


def test_a_refusal_makes_a_new_placement() -> None:
    placer, claims = Placer(), ((claim(WITH),),)
    first = placer.place(seen({WITH: "0-1"}, {}), claims, 1)
    second = placer.place(seen({WITH: "0-1"}, {WITH: BELOW}), claims, 2)
    assert second is not first
    assert second == place_claims(seen({WITH: "0-1"}, {WITH: BELOW}), claims[0])
