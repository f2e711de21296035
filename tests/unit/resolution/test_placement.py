"""Who gets which CPUs, and what follows for everybody else."""

import random
from collections.abc import Iterable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.cpus import CpuPolicy, CpuSet, Topology
from slackwater.model.decision import Because, CpuClaim, Intent, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, QUOTA, KnobKey
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.resolution.placement import Placer, ResolvedClaims, place_claims
from slackwater.resolution.resolver import resolve
from tests.unit.policies.nodes import KUBEPODS, node
from tests.unit.resolution.machines import SINGLE, cpus, machine

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
EXCLUSIVE, SHARE = CpuPolicy.EXCLUSIVE, CpuPolicy.SHARE
BURSTABLE = CgroupRef("kubepods/burstable", 3, Level.TIER, Tier.BURSTABLE)
ASKED = Because("a test", "asks", "so")
LIMITED = Bandwidth(Micros(200_000))


def pod_ref(number: int) -> CgroupRef:
    path = f"kubepods/burstable/pod{number}"
    return CgroupRef(path, 100 * number, Level.POD, Tier.BURSTABLE, str(number))


def box_ref(number: int, place: int = 1) -> CgroupRef:
    path = f"{pod_ref(number).path}/c{place}"
    return CgroupRef(path, 100 * number + 10 + place, Level.CONTAINER, Tier.BURSTABLE, str(number))


def claim(
    number: int, count: int, policy: CpuPolicy = EXCLUSIVE, place: int = 1, started: int = 0
) -> CpuClaim:
    ref = box_ref(number, place)
    return CpuClaim(ref, f"shop/p{number}", f"c{place}", count, policy, ASKED, "pins", started)


def seen(
    pods: Iterable[int],
    version: CgroupVersion = V2,
    topology: Topology | Gap = SINGLE,
    reserved: str = "0",
    held: Mapping[CgroupRef, tuple[str, str]] | None = None,
    stands: Mapping[CgroupRef, str] | None = None,
    off: Iterable[CgroupRef] = (),
) -> NodeSnapshot:
    """Pods with a sandbox, c0, and a container, c1. `held` are baselines and what we wrote."""
    full = SINGLE.all() if isinstance(topology, Gap) else topology.all()
    plain = full if version is V1 else CpuSet()
    groups = [KUBEPODS, BURSTABLE]
    for number in pods:
        groups += [pod_ref(number), box_ref(number, 0), box_ref(number, 1)]
    ours = held or {}
    readings = {}
    for ref in groups:
        there = cpus(ours[ref][1]) if ref in ours else plain
        if stands and ref in stands:
            there = cpus(stands[ref])
        readings[ref.id] = CgroupReading(ref, Micros(0), quota=LIMITED, cpus=there)
    return msgspec.structs.replace(
        node(),
        readings=readings,
        version=version,
        topology=topology,
        reserved_cpus=cpus(reserved),
        held=tuple(
            Held(ref, CPUS.name, cpus(before), cpus(now), Micros(0))
            for ref, (before, now) in ours.items()
        ),
        off=frozenset(KnobKey(ref.id, CPUS.name) for ref in off),
    )


def given_cpus(found: ResolvedClaims) -> dict[str, str]:
    assert found.placement is not None
    return {each.claim.pod: each.cpus.format() for each in found.placement.claims}


def sets(found: ResolvedClaims) -> dict[str, str]:
    """By the end of a group's path."""
    return {
        intent.target.path.removeprefix("kubepods/burstable/"): intent.value.format()
        for intent in found.intents
        if intent.knob == CPUS.name and isinstance(intent.value, CpuSet)
    }


def test_cranes_case() -> None:
    """Row 41: hyper-threads, CPU 0 reserved; exclusive 2, then share 2."""
    found = place_claims(seen((1, 2, 3)), (claim(1, 2), claim(2, 2, SHARE)))
    assert given_cpus(found) == {"shop/p1": "1,5", "shop/p2": "2,6"}
    assert found.placement is not None
    assert found.placement.common.format() == "0,2-4,6-7"
    held = {box_ref(1): ("0-7", "1,5"), box_ref(2): ("0-7", "2,6")}
    again = place_claims(seen((1, 2, 3), held=held), (claim(1, 2, SHARE), claim(2, 2, SHARE)))
    assert given_cpus(again) == given_cpus(found)
    assert again.placement is not None
    assert again.placement.common.format() == "0-7"


def test_on_v2_a_group_that_would_have_the_same_is_not_written() -> None:
    found = sets(place_claims(seen((1, 2)), (claim(1, 2),)))
    others = "0,2-4,6-7"
    assert found == {"pod1/c1": "1,5", "pod1/c0": others, "pod2": others}


def test_on_v1_containers_and_sandboxes_are_written_alone() -> None:
    found = sets(place_claims(seen((1, 2), V1), (claim(1, 2),)))
    others = "0,2-4,6-7"
    assert found == {"pod1/c1": "1,5", "pod1/c0": others, "pod2/c0": others, "pod2/c1": others}


@pytest.mark.parametrize("version", [V1, V2])
def test_sharing_leaves_everybody_else_alone(version: CgroupVersion) -> None:
    assert sets(place_claims(seen((1, 2), version), (claim(1, 2, SHARE),))) == {"pod1/c1": "1,5"}


def test_what_somebody_else_set_is_narrowed_and_never_widened() -> None:
    """On v2 the set above sees to it, also where nothing of its own is left."""
    stands = {box_ref(2): "1-3", box_ref(3): "5"}
    v1 = sets(place_claims(seen((1, 2, 3), V1, stands=stands), (claim(1, 2),)))
    assert (v1["pod2/c1"], v1["pod3/c1"]) == ("2-3", "0,2-4,6-7")
    v2 = sets(place_claims(seen((1, 2, 3), V2, stands=stands), (claim(1, 2),)))
    assert v2.keys() == {"pod1/c0", "pod1/c1", "pod2", "pod3"}


def test_what_a_group_above_forbids_is_not_given() -> None:
    found = place_claims(seen((1, 2), stands={pod_ref(1): "2-4"}), (claim(1, 1), claim(2, 1)))
    assert given_cpus(found) == {"shop/p1": "4", "shop/p2": "1"}


def test_whoever_has_cpus_keeps_them_and_new_ones_come_in_the_order_of_their_start() -> None:
    held = {box_ref(3): ("", "2,6")}
    claims = (claim(1, 2, started=20), claim(2, 2, started=10), claim(3, 2, started=30))
    found = place_claims(seen((1, 2, 3), held=held), claims)
    assert given_cpus(found) == {"shop/p3": "2,6", "shop/p2": "1,5", "shop/p1": "3,7"}


def test_without_a_ledger_the_cgroup_says_what_it_has() -> None:
    found = place_claims(seen((1,), stands={box_ref(1): "3,7"}), (claim(1, 2),))
    assert given_cpus(found) == {"shop/p1": "3,7"}


def test_the_set_of_a_container_without_a_claim_is_not_its_own() -> None:
    """It was everybody's; what the second has must not be taken by the first."""
    held = {box_ref(1): ("0-7", "0,2-4,6-7"), box_ref(2): ("0-7", "2,6")}
    claims = (claim(1, 2), claim(2, 2, SHARE))
    found = place_claims(seen((1, 2), V1, held=held), claims)
    assert given_cpus(found) == {"shop/p1": "1,5", "shop/p2": "2,6"}


@pytest.mark.parametrize(
    ("had", "count", "now"),
    [
        ("2,6", 3, "2,4,6"),
        ("2,6", 4, "1-2,5-6"),
        ("1-2,5-6", 2, "1,5"),
        # On the way from one set to another when the agent was killed.
        ("1-2,5-6", 3, "1-2,5"),
    ],
)
def test_another_size_keeps_what_it_can(had: str, count: int, now: str) -> None:
    found = place_claims(seen((1,), held={box_ref(1): ("", had)}), (claim(1, count),))
    assert given_cpus(found) == {"shop/p1": now}


def offline(*gone: int) -> Topology:
    return Topology(tuple(cpu for cpu in SINGLE.cpus if cpu.number not in gone))


@pytest.mark.parametrize(
    ("gone", "count", "now"),
    [((6,), 2, "2,4"), ((2, 6), 2, "1,5"), ((3, 7), 2, "2,6"), ((1, 4, 5), 5, "")],
)
def test_a_cpu_that_goes_offline(gone: tuple[int, ...], count: int, now: str) -> None:
    """Its holder gets another one; where there is none it runs with everybody else."""
    had = "2,6" if count == 2 else "1-3,5,7"
    snapshot = seen((1,), topology=offline(*gone), held={box_ref(1): ("", had)})
    found = place_claims(snapshot, (claim(1, count),))
    assert given_cpus(found) == {"shop/p1": now}
    assert found.placement is not None
    assert [bool(each.refused) for each in found.placement.claims] == [not now]
    assert not found.placement.common & CpuSet.of(gone)


def test_the_first_cpu_is_kept_back_where_no_reserved_one_is_online() -> None:
    found = place_claims(seen((1,), topology=offline(0)), (claim(1, 6),))
    assert given_cpus(found) == {"shop/p1": "2-7"}


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (8, "8 CPUs are more than the 7 that can be had here"),
        (6, "6 CPUs of its own are not free, 4 are"),
    ],
)
def test_a_refusal_is_one_sentence_and_others_go_on(count: int, text: str) -> None:
    claims = (claim(1, 2, started=1), claim(2, count, started=2), claim(3, 1, started=3))
    found = place_claims(seen((1, 2, 3)), claims)
    assert found.placement is not None
    first, second, third = found.placement.claims
    assert (first.cpus.format(), len(third.cpus)) == ("1,5", 1)
    assert second.refused.startswith(text)
    assert second.refused.endswith("so c1 runs on the CPUs that nobody holds alone")


def test_a_group_that_cannot_be_written_gets_none() -> None:
    found = place_claims(seen((1, 2), off=(box_ref(1),)), (claim(1, 2), claim(2, 2)))
    assert given_cpus(found) == {"shop/p1": "", "shop/p2": "1,5"}


def test_quotas_of_the_container_and_its_pod() -> None:
    claims = (claim(1, 2), claim(1, 1, place=0), claim(2, 1, SHARE))
    found = place_claims(seen((1, 2)), claims)
    lifted = [each for each in found.intents if each.knob == QUOTA.name]
    assert [each.target.path.rpartition("/")[2] for each in lifted] == ["c0", "c1", "pod1"]
    assert {(each.verb, each.value) for each in lifted} == {(Verb.FLOOR, UNLIMITED)}


@pytest.mark.parametrize("version", [V1, V2])
def test_no_cap_throttles_it(version: CgroupVersion) -> None:
    """Whoever caps it, or its pod."""
    snapshot = seen((1,), version)
    found = place_claims(snapshot, (claim(1, 2),))
    caps = tuple(
        Intent(ref, QUOTA.name, Verb.CAP, MilliCpu(300), ASKED, "a cap")
        for ref in (pod_ref(1), box_ref(1))
    )
    grants = [each for each in resolve(snapshot, (*caps, *found.intents)) if each.knob == "quota"]
    assert [each.value for each in grants] == [UNLIMITED, UNLIMITED]
    assert {each.contest for each in grants} == {"pins's floor beats a cap's cap"}


def test_while_the_machine_is_not_known_everything_stays() -> None:
    held = {box_ref(1): ("", "1,5"), pod_ref(2): ("", "0,2-4,6-7")}
    snapshot = seen((1, 2), topology=Gap("sysfs cannot be read"), held=held)
    quota = Held(box_ref(1), QUOTA.name, LIMITED, Bandwidth(UNLIMITED), Micros(0))
    snapshot = msgspec.structs.replace(snapshot, held=(*snapshot.held, quota))
    found = place_claims(snapshot, (claim(1, 2), claim(2, 1)))
    assert found.placement is None
    assert sets(found) == {"pod1/c1": "1,5", "pod2": "0,2-4,6-7"}
    assert [each.value for each in found.intents if each.knob == QUOTA.name] == [UNLIMITED]


def test_no_claims_ask_for_nothing() -> None:
    assert place_claims(seen((1, 2)), ()) == ResolvedClaims()


def test_only_refused_claims_touch_nobody() -> None:
    found = place_claims(seen((1, 2)), (claim(1, 9),))
    assert found.intents == ()
    assert found.placement is not None
    assert found.placement.common == SINGLE.all()


CLAIMS = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from((SHARE, EXCLUSIVE)), st.integers(0, 2)),
    min_size=1,
    max_size=8,
)
TOPOLOGIES = st.sampled_from(
    (SINGLE, machine(2, 4, 2, cache=2), machine(1, 6), machine(4, 2, 2, nodes=2))
)


@given(TOPOLOGIES, CLAIMS, st.sampled_from((V1, V2)), st.randoms(use_true_random=False))
def test_laws(
    topology: Topology,
    asked: list[tuple[int, CpuPolicy, int]],
    version: CgroupVersion,
    chance: random.Random,
) -> None:
    """Sets are apart, reserved CPUs nobody's, the order of the claims does not matter, what was
    given is given again, and one more moves nobody."""
    claims = [
        claim(number, count, policy, started=started)
        for number, (count, policy, started) in enumerate(asked, 1)
    ]
    numbers = range(1, len(claims) + 1)
    snapshot = seen(numbers, version, topology, reserved="0-1")
    found = place_claims(snapshot, claims)
    assert found.placement is not None
    taken = CpuSet()
    for each in found.placement.claims:
        assert len(each.cpus) in (0, each.claim.count)
        assert bool(each.refused) is not bool(each.cpus)
        assert not each.cpus & (taken | cpus("0-1"))
        taken |= each.cpus
    assert cpus("0-1").within(found.placement.common)
    check_in_force(snapshot, found)
    chance.shuffle(claims)
    assert place_claims(snapshot, claims) == found
    before = topology.all() if version is V1 else CpuSet()
    written = {
        each.target: (before.format(), each.value.format())
        for each in found.intents
        if isinstance(each.value, CpuSet)
    }
    again = place_claims(seen(numbers, version, topology, "0-1", written), claims)
    assert again == found
    one_more = claim(len(claims) + 1, chance.randint(1, 4), started=chance.randint(0, 3))
    more = range(1, len(claims) + 2)
    later = place_claims(seen(more, version, topology, "0-1", written), [*claims, one_more])
    before_it, after_it = given_cpus(found), given_cpus(later)
    assert all(after_it[pod] == had for pod, had in before_it.items() if had), "nobody is moved"


def check_in_force(snapshot: NodeSnapshot, found: ResolvedClaims) -> None:
    """What the kernel makes of it: every container has a CPU, and none that another one holds
    alone."""
    assert found.placement is not None
    assert isinstance(snapshot.topology, Topology)
    written = {
        each.target.path: each.value for each in found.intents if isinstance(each.value, CpuSet)
    }
    alone = {
        each.claim.target: each.cpus
        for each in found.placement.claims
        if each.claim.policy is EXCLUSIVE
    }
    force: dict[str, CpuSet] = {}
    for reading in sorted(snapshot.readings.values(), key=lambda each: each.ref.depth()):
        path = reading.ref.path
        assert isinstance(reading.cpus, CpuSet)
        own = written.get(path, reading.cpus)
        above = force.get(path.rpartition("/")[0], snapshot.topology.all())
        force[path] = own & above or above
        if reading.ref.level is Level.CONTAINER:
            assert force[path]
            others = [cpus for ref, cpus in alone.items() if ref != reading.ref]
            assert not any(force[path] & each for each in others)


FOREIGN = st.dictionaries(
    st.builds(box_ref, st.integers(1, 4), st.integers(0, 1)),
    st.sets(st.integers(0, 7), min_size=1).map(lambda found: CpuSet.of(found).format()),
)


@given(CLAIMS, st.sampled_from((V1, V2)), FOREIGN)
def test_laws_beside_sets_of_others(
    asked: list[tuple[int, CpuPolicy, int]], version: CgroupVersion, stands: dict[CgroupRef, str]
) -> None:
    claims = [
        claim(number, count, policy, started=started)
        for number, (count, policy, started) in enumerate(asked, 1)
    ]
    snapshot = seen(range(1, 9), version, stands=stands)
    check_in_force(snapshot, place_claims(snapshot, claims))


@given(st.lists(st.tuples(CLAIMS, st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_a_cache_changes_nothing(
    rounds: list[tuple[list[tuple[int, CpuPolicy, int]], bool, bool]],
) -> None:
    """Whatever changes from tick to tick: the claims, the online CPUs, or nothing about CPUs."""
    placer = Placer()
    revision = 0
    kept: tuple[CpuClaim, ...] = ()
    for asked, same, fewer in rounds:
        if not same:
            kept = tuple(
                claim(number, count, policy, started=started)
                for number, (count, policy, started) in enumerate(asked, 1)
            )
        revision += not same or fewer
        topology = offline(7) if fewer else SINGLE
        snapshot = seen(range(1, 9), topology=topology)
        # Something else was written.
        revision += 1
        assert placer.place(snapshot, (kept,), revision) == place_claims(snapshot, kept)


def test_nothing_is_placed_again_while_nothing_changed() -> None:
    placer, claims = Placer(), ((claim(1, 2),),)
    first = placer.place(seen((1, 2)), claims, 1)
    assert placer.place(seen((1, 2)), claims, 1) is first
    assert placer.place(seen((1, 2)), claims, 2) is first
    assert placer.place(seen((1, 2, 3)), claims, 3) is not first
