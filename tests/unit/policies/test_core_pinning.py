"""Who claims CPUs, and who is told why not."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.cpu_policy import CPU_MANAGER, CPU_POLICY
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.model.cgroup import Level
from slackwater.model.cpus import CpuPolicy, CpuSet, KubeletCpus
from slackwater.model.decision import Act, CpuClaim, Hold, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobValue
from slackwater.model.needs import Needs
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.policies.core_pinning import POLICY, CorePinningSettings, why_unqualified
from tests.unit.policies.nodes import node, reading
from tests.unit.policies.pods import box, inner_ref, pod, pod_ref
from tests.unit.resolution.machines import SINGLE

ON = CorePinningSettings(enabled=True)
NONE, SHARE, EXCLUSIVE = CpuPolicy.NONE, CpuPolicy.SHARE, CpuPolicy.EXCLUSIVE
NO_MANAGER = KubeletCpus("none")
ALL = SINGLE.all()
NO_GROUP = Gap("its cgroup is not there")


def sized(name: str, request: int, limit: int | None, **more: Any) -> WorkloadContainer:
    stated: MilliCpu | Unlimited = UNLIMITED if limit is None else MilliCpu(limit)
    return box(name, request=MilliCpu(request), limit=stated, **more)


def seen(*pods: Workload, kubelet: KubeletCpus | Gap = NO_MANAGER) -> NodeSnapshot:
    return msgspec.structs.replace(
        node(workloads=pods), topology=SINGLE, reserved_cpus=CpuSet.of([0]), kubelet_cpus=kubelet
    )


def acted(snapshot: NodeSnapshot, settings: CorePinningSettings = ON) -> Act:
    decision = POLICY.decide(snapshot, POLICY.first_memory, settings)
    assert isinstance(decision, Act)
    return decision


def claims(act: Act) -> list[tuple[str, int, CpuPolicy]]:
    return [(each.container, each.count, each.policy) for each in act.claims]


@pytest.mark.parametrize(
    ("request_", "limit", "count"),
    [
        (1000, 1000, 1),
        (2000, 2000, 2),
        (64000, 64000, 64),
        (1500, 1500, None),
        (500, 500, None),
        (1000, 2000, None),
        (1000, None, None),
        (0, None, None),
    ],
)
@pytest.mark.parametrize("policy", [SHARE, EXCLUSIVE])
def test_a_container_qualifies_by_its_own_limit(
    request_: int, limit: int | None, count: int | None, policy: CpuPolicy
) -> None:
    """What the other containers of the pod ask for does not matter."""
    mine, other = sized("c1", request_, limit), sized("c2", 100, None)
    act = acted(seen(pod(mine, other, cpu_policy=policy)))
    assert claims(act) == ([("c1", count, policy)] if count else [])
    assert bool(act.remarks) is (count is None)


def test_every_container_of_a_pod_claims_for_itself() -> None:
    act = acted(seen(pod(sized("c1", 1000, 1000), sized("c2", 3000, 3000), cpu_policy=EXCLUSIVE)))
    assert claims(act) == [("c1", 1, EXCLUSIVE), ("c2", 3, EXCLUSIVE)]
    assert act.numbers == {
        "exclusive containers": 2,
        "sharing containers": 0,
        "claimed CPUs": 4,
    }
    assert not act.intents


def test_what_a_claim_says() -> None:
    workload = pod(sized("c1", 2000, 2000), cpu_policy=EXCLUSIVE, started=1234)
    [claim] = acted(seen(workload)).claims
    assert claim == CpuClaim(
        inner_ref(1, "c1"),
        "default/pod-1",
        "c1",
        2,
        EXCLUSIVE,
        claim.because,
        "core_pinning",
        1234,
    )
    said = (claim.because.signal, claim.because.seen, claim.because.limit)
    assert said == ("qos.gocrane.io/cpu-manager", "exclusive", "2 CPUs by its limit")


@pytest.mark.parametrize("asked", [None, NONE])
def test_nothing_is_claimed_for_none(asked: CpuPolicy | None) -> None:
    act = acted(seen(pod(sized("c1", 2000, 2000), cpu_policy=asked)))
    assert (act.claims, act.intents, act.remarks) == ((), (), ())


@pytest.mark.parametrize(
    ("asked", "want"), [(None, SHARE), (NONE, None), (EXCLUSIVE, EXCLUSIVE), (SHARE, SHARE)]
)
def test_the_default_is_for_pods_without_an_annotation(
    asked: CpuPolicy | None, want: CpuPolicy | None
) -> None:
    settings = CorePinningSettings(enabled=True, default_policy=SHARE)
    act = acted(seen(pod(sized("c1", 1000, 1000), cpu_policy=asked)), settings)
    assert [each.policy for each in act.claims] == ([want] if want else [])


def test_the_default_does_not_complain_about_pods_that_asked_for_nothing() -> None:
    settings = CorePinningSettings(enabled=True, default_policy=EXCLUSIVE)
    act = acted(seen(pod(sized("c1", 100, None))), settings)
    assert (act.claims, act.remarks) == ((), ())


def test_a_container_without_a_group_claims_nothing_yet() -> None:
    workload = pod(sized("c1", 1000, 1000, ref=NO_GROUP), cpu_policy=EXCLUSIVE)
    act = acted(seen(workload))
    assert (act.claims, act.remarks) == ((), ())


def test_a_bad_word_is_a_remark_and_others_go_on() -> None:
    bad = pod(sized("c1", 1000, 1000), cpu_policy=Gap("the annotation is bad"))
    good = pod(sized("c1", 1000, 1000, number=2), number=2, cpu_policy=SHARE)
    act = acted(seen(bad, good))
    assert [each.text for each in act.remarks] == ["the annotation is bad; it counts as none"]
    assert [each.pod for each in act.claims] == ["default/pod-2"]


BAD = Gap("the annotation is bad")
LIMITED = Bandwidth(Micros(200_000))


def held(knob: str, baseline: KnobValue, ours: KnobValue) -> Held:
    return Held(inner_ref(1, "c1"), knob, baseline, ours, Micros(0))


@pytest.mark.parametrize(
    ("before", "settings"),
    [
        (EXCLUSIVE, ON),
        (SHARE, ON),
        (None, CorePinningSettings(enabled=True, default_policy=SHARE)),
        (NONE, ON),
    ],
)
def test_a_bad_word_keeps_the_last_good_policy(
    before: CpuPolicy | None, settings: CorePinningSettings
) -> None:
    """Also for a container that starts again meanwhile, and for as long as the word is bad."""
    good = acted(seen(pod(sized("c1", 2000, 2000), cpu_policy=before)), settings)
    bad = seen(pod(sized("c1", 2000, 2000), sized("c2", 1000, 1000), cpu_policy=BAD))
    policy = before or settings.default_policy
    memory = good.memory
    for _ in range(2):
        act = POLICY.decide(bad, memory, settings)
        assert isinstance(act, Act)
        assert claims(act) == ([("c1", 2, policy), ("c2", 1, policy)] if policy is not NONE else [])
        [remark] = act.remarks
        stays = "share stays" if policy is SHARE else "exclusive stays"
        assert (stays if policy is not NONE else "counts as none") in remark.text
        memory = act.memory


FREED = held("quota", LIMITED, Bandwidth(UNLIMITED))


@pytest.mark.parametrize(
    ("kept", "quota", "policy"),
    [
        ((held("cpus", ALL, CpuSet.of([1, 2])), FREED), Bandwidth(UNLIMITED), EXCLUSIVE),
        ((held("cpus", ALL, CpuSet.of([1, 2])),), LIMITED, SHARE),
        ((held("cpus", ALL, CpuSet.of([1, 2])),), Bandwidth(UNLIMITED), EXCLUSIVE),
        ((held("cpus", ALL, CpuSet.of([0, 2])),), LIMITED, None),
        ((held("cpus", ALL, CpuSet()),), LIMITED, None),
        ((), LIMITED, None),
    ],
    ids=["exclusive", "share", "no quotas here", "the common set", "empty", "not bound"],
)
def test_after_a_restart_the_last_good_policy_is_what_is_held(
    kept: tuple[Held, ...], quota: Bandwidth, policy: CpuPolicy | None
) -> None:
    snapshot = seen(pod(sized("c1", 2000, 2000), cpu_policy=BAD))
    ref = inner_ref(1, "c1")
    snapshot = msgspec.structs.replace(snapshot, held=kept, readings={ref.id: reading(ref, quota)})
    assert claims(acted(snapshot)) == ([("c1", 2, policy)] if policy else [])


def test_what_is_held_is_not_the_policy_of_a_container_that_does_not_qualify() -> None:
    snapshot = seen(pod(sized("c1", 1500, 1500), cpu_policy=BAD))
    kept = (held("cpus", ALL, CpuSet.of([1, 2])),)
    assert not acted(msgspec.structs.replace(snapshot, held=kept)).claims


def test_a_claim_by_the_last_good_policy_says_so() -> None:
    memory = acted(seen(pod(sized("c1", 2000, 2000), cpu_policy=EXCLUSIVE))).memory
    act = POLICY.decide(seen(pod(sized("c1", 2000, 2000), cpu_policy=BAD)), memory, ON)
    assert isinstance(act, Act)
    [claim] = act.claims
    assert (claim.because.signal, claim.because.seen) == ("the last good policy", "exclusive")


def test_a_fraction_is_told_with_what_each_container_has() -> None:
    workload = pod(sized("c1", 1500, 1500), sized("c2", 100, None), cpu_policy=EXCLUSIVE)
    [remark] = acted(seen(workload)).remarks
    assert remark.about == "default/pod-1"
    for part in ("whole", "c1 has request 1500m and limit 1500m", "c2 has request 100m and no"):
        assert part in remark.text


ASSIGNED: Mapping[str, Mapping[str, CpuSet]] = {"1": {"c1": CpuSet.of([1, 5])}}


@pytest.mark.parametrize("policy", ["static", "something-newer"])
def test_under_the_kubelets_own_manager_nothing_is_claimed(policy: str) -> None:
    workload = pod(sized("c1", 1000, 1000), sized("c2", 1000, 1000), cpu_policy=EXCLUSIVE)
    act = acted(seen(workload, kubelet=KubeletCpus(policy)))
    assert act.claims == ()
    [remark] = act.remarks
    assert policy in remark.text
    assert "cpuManagerPolicy: none" in remark.text


def test_what_the_kubelet_pinned_has_no_quota() -> None:
    pinned = pod(sized("c1", 2000, 2000), sized("c2", 100, 100))
    other = pod(sized("c1", 2000, 2000, number=2), number=2)
    act = acted(seen(pinned, other, kubelet=KubeletCpus("static", ASSIGNED)))
    assert [(i.target, i.knob, i.verb, i.value) for i in act.intents] == [
        (pod_ref(1), "quota", Verb.FLOOR, UNLIMITED),
        (inner_ref(1, "c1"), "quota", Verb.FLOOR, UNLIMITED),
    ]


@pytest.mark.parametrize("unknown", ["topology", "kubelet_cpus"])
def test_it_holds_while_the_machine_or_the_kubelet_are_not_known(unknown: str) -> None:
    snapshot = seen(pod(sized("c1", 1000, 1000), cpu_policy=SHARE))
    blind = msgspec.structs.replace(snapshot, **{unknown: Gap("it cannot be read")})
    decision = POLICY.decide(blind, POLICY.first_memory, ON)
    assert isinstance(decision, Hold)
    assert decision.reason == "it cannot be read"


def test_nothing_is_held_where_nobody_asks() -> None:
    snapshot = seen(pod(sized("c1", 1000, 1000)), kubelet=Gap("it cannot be read"))
    assert acted(snapshot).claims == ()


def test_movable_only_where_the_setting_says_so() -> None:
    snapshot = seen(pod(sized("c1", 1000, 1000), cpu_policy=SHARE))
    [still] = acted(snapshot).claims
    [movable] = acted(snapshot, CorePinningSettings(enabled=True, defragment=True)).claims
    assert (still.movable, movable.movable) == (False, True)


def test_whom_it_concerns() -> None:
    assert POLICY.concerns(pod(cpu_policy=NONE))
    assert POLICY.concerns(pod(cpu_policy=Gap("a bad word")))
    assert not POLICY.concerns(pod())


def stated(cpu: str, tier: str, annotations: dict[str, str]) -> Pod:
    document = {
        "metadata": {"name": "p", "uid": "p", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": cpu}}}]},
        "status": {"qosClass": tier},
    }
    return read_pod(document, "a test")


@pytest.mark.parametrize(
    ("found", "fields"),
    [
        (stated("2", "Burstable", {CPU_MANAGER: "share"}), {"cpus", "quota"}),
        (stated("2", "Burstable", {CPU_MANAGER: "a typo"}), {"cpus", "quota"}),
        (stated("2", "Burstable", {CPU_POLICY: "exclusive"}), {"cpus", "quota"}),
        (stated("2", "Guaranteed", {}), {"quota"}),
        (stated("2", "Burstable", {}), set()),
        (stated("1500m", "Guaranteed", {}), set()),
        (stated("500m", "Guaranteed", {}), set()),
    ],
)
def test_what_is_read_because_of_pods(found: Pod, fields: set[str]) -> None:
    needs: Needs = POLICY.needs_of_pods(ON, (stated("1500m", "Burstable", {}), found))
    assert {each.value for each in needs.at(Level.CONTAINER)} == fields
    assert {each.value for each in needs.at(Level.POD)} == fields
    assert needs.topology is bool(fields)
    assert POLICY.needs(ON, frozenset()) == Needs()


def test_every_pod_counts_under_a_default() -> None:
    settings = CorePinningSettings(enabled=True, default_policy=SHARE)
    assert POLICY.needs_of_pods(settings, ()).topology


def test_a_pod_with_many_containers_is_told_in_one_short_sentence() -> None:
    boxes = [sized(f"c{n}", 500, 500) for n in range(300)]
    [remark] = acted(seen(pod(*boxes, cpu_policy=EXCLUSIVE))).remarks
    assert remark.text.endswith("; and 297 more")
    assert len(remark.text) < 300


@pytest.mark.parametrize(
    ("key", "policy", "word"),
    [
        (CPU_MANAGER, SHARE, "share"),
        (CPU_POLICY, EXCLUSIVE, "exclusive"),
        (CPU_POLICY, SHARE, "immovable"),
    ],
)
def test_a_claim_names_the_annotation_that_it_follows(
    key: str, policy: CpuPolicy, word: str
) -> None:
    workload = pod(sized("c1", 1000, 1000), cpu_policy=policy, cpu_policy_key=key)
    [claim] = acted(seen(workload)).claims
    assert (claim.because.signal, claim.because.seen) == (key, word)


@pytest.mark.parametrize(
    ("container", "said"),
    [
        (sized("c1", 2000, 2000), ""),
        (sized("c1", 1500, 1500), "it has request 1500m and limit 1500m"),
        (sized("c1", 0, None), "it has no request and no limit"),
    ],
)
def test_why_a_container_does_not_qualify(container: WorkloadContainer, said: str) -> None:
    assert why_unqualified(container).endswith(said)
    assert bool(why_unqualified(container)) is bool(said)
