"""What a container is granted before it starts: the tick's own answer, or none at all."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.container_start import (
    StartDecision,
    StartingContainer,
    StartsFound,
    TickBasis,
    decide_start,
    find_starts,
)
from slackwater.agent.tick import TickMemory, tick
from slackwater.contract.koordinator.normalization import Hundredths
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.cpus import Cpu, CpuPolicy, CpuSet, KubeletCpus, Topology
from slackwater.model.gap import Gap
from slackwater.model.needs import Needs
from slackwater.model.plan import StartNote
from slackwater.model.snapshot import Held
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.policies import core_pinning, elastic_resources, normalization
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.execution.desk import quota
from tests.unit.policies.pods import V1, V2, box, inner_ref, pod, pod_ref, reading, snapshot

RATIO = {normalization.NAME: normalization.BoundNormalization(True, Hundredths(120))}
TWO = MilliCpu(2000)
NONE = Bandwidth(UNLIMITED)
FOUR_CPUS = Topology(tuple(Cpu(number, number, 0, 0) for number in range(4)))


def basis(
    settings: dict[str, Any] | None = None, version: CgroupVersion = V2, **more: Any
) -> TickBasis:
    """After a tick that saw no pod at all."""
    return TickBasis(
        snapshot(version=version, **more), TickMemory(), RATIO if settings is None else settings
    )


def starting(
    asked: Bandwidth = quota(200_000),  # noqa: B008
    limit: Any = TWO,
    pod_quota: Bandwidth | Gap = NONE,
    cpus: CpuSet = CpuSet(),  # noqa: B008
    **about_pod: Any,
) -> StartingContainer:
    gap = Gap("its cgroup is not there")
    request = MilliCpu(0) if limit is UNLIMITED else limit
    made = pod(box("c1", ref=gap, request=request, limit=limit), **about_pod)
    return StartingContainer(made, "c1", "c1", asked, pod_quota, cpus)


def decided(container: StartingContainer, about: TickBasis | None = None) -> StartDecision:
    return decide_start(about or basis(), POLICIES, container)


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    ("asked", "limit", "expected"),
    [
        (quota(200_000), 2000, quota(166_667)),
        (quota(100_000), 1000, quota(83_334)),
        (quota(20_000, 10_000), 2000, quota(16_667, 10_000)),
        (quota(1_000), 10, None),  # the kernel's smallest
        (NONE, UNLIMITED, None),
    ],
)
def test_the_quota_is_divided_by_the_ratio(
    version: CgroupVersion, asked: Bandwidth, limit: Any, expected: Bandwidth | None
) -> None:
    found = decided(starting(asked, limit), basis(version=version))
    assert found.quota == expected
    if expected:
        assert found.because == normalization.NAME


@pytest.mark.parametrize("version", [V1, V2])
def test_the_kubelet_starts_a_container_without_a_limit_with_its_pods(
    version: CgroupVersion,
) -> None:
    container = starting(quota(200_000), UNLIMITED, quota(200_000), own_limit=TWO)
    found = decided(container, basis(version=version))
    assert found == StartDecision(quota(166_667), normalization.NAME)


def test_nothing_is_on() -> None:
    assert decided(starting(), basis({})) == StartDecision(None, "no policy changes its quota")


@given(st.integers(10, 64_000), st.integers(100, 500), st.sampled_from([V1, V2]))
def test_the_next_tick_finds_nothing_to_change(
    milli: int, ratio: int, version: CgroupVersion
) -> None:
    """What is answered is what the tick grants to the container as it then stands there: nothing is
    written, and its baseline is what the kubelet asked for."""
    settings = {normalization.NAME: normalization.BoundNormalization(True, Hundredths(ratio))}
    asked = quota(max(milli * 100, 1000))
    found = decided(starting(asked, MilliCpu(milli)), basis(settings, version))
    stands = found.quota or asked
    ref = inner_ref(1, "c1")
    held = (Held(ref, "quota", asked, stands, Micros(0)),) if found.quota else ()
    seen = snapshot(
        pod(box("c1", limit=MilliCpu(milli))),
        version=version,
        readings={
            10: reading(pod_ref()),
            ref.id: reading(ref, quota=stands),
        },
        held=held,
    )
    done = tick(seen, TickMemory(), POLICIES, settings, AgentSettings())
    assert [each for each in done.planned.changes if each.ref == ref] == []
    assert done.planned.releases == ()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"limit": MilliCpu(3000)}, "not its limit's"),
        ({"limit": UNLIMITED}, "not its limit's"),
        ({"ref": Gap("its cgroup is not there")}, "its cgroup is not there"),
    ],
)
def test_what_is_left_to_the_tick(changed: dict[str, Any], why: str) -> None:
    """A quota that is not the limit's is another plug-in's: two that set one keep it from
    starting."""
    found = decided(starting(**changed))
    assert found.quota is None
    assert why in found.because


def test_a_container_that_the_pod_does_not_have() -> None:
    other = StartingContainer(pod(box("c2")), "c1", "c1", quota(200_000), NONE)
    assert decided(other) == StartDecision(None, "the pod has no container c1")


def test_a_pod_with_cpus_of_its_own_by_another_system() -> None:
    assert decided(starting(bound_cpus="Koordinator's LSR")).quota is None


@pytest.mark.parametrize(
    ("policy", "reserved", "cpus", "adjusted"),
    [
        ("static", "0", "1-2", False),  # its own
        ("static", "0", "0-3", True),  # the shared pool
        ("static", "", "0-3", False),  # cannot be told
        ("none", "", "0-3", True),
        ("static", "0", "", True),
    ],
)
def test_cpus_that_the_kubelet_gives(policy: str, reserved: str, cpus: str, adjusted: bool) -> None:
    about = basis(
        kubelet_cpus=KubeletCpus(policy),
        reserved_cpus=CpuSet.parse(reserved) if reserved else CpuSet(),
    )
    own = CpuSet.parse(cpus) if cpus else CpuSet()
    assert (decided(starting(cpus=own), about).quota is not None) is adjusted


def test_a_container_that_gets_cpus_of_its_own_by_us() -> None:
    settings = RATIO | {core_pinning.NAME: core_pinning.CorePinningSettings(enabled=True)}
    about = basis(
        settings,
        topology=FOUR_CPUS,
        reserved_cpus=CpuSet.parse("0"),
        kubelet_cpus=KubeletCpus("none"),
    )
    alone = starting(quota(100_000), MilliCpu(1000), cpu_policy=CpuPolicy.EXCLUSIVE)
    assert decided(alone, about) == StartDecision(None, "it gets CPUs of its own")


def test_an_elastic_quota_is_there_from_the_start() -> None:
    settings = {elastic_resources.NAME: elastic_resources.ElasticResourcesSettings(enabled=True)}
    limits = {"kubernetes.io/batch-cpu": 500}
    made = pod(box("c1", limits, limits, ref=Gap("")))
    container = StartingContainer(made, "c1", "c1", NONE, NONE)
    assert decided(container, basis(settings)).quota == quota(50_000)
    assert decided(container, basis(settings | RATIO)).quota == quota(41_667)


@pytest.mark.parametrize(
    ("settings", "pod_quota", "expected"),
    [
        (RATIO, quota(166_667), quota(166_667)),  # divided already
        (RATIO, quota(200_000), quota(166_667)),
        ({}, quota(200_000), None),
        ({}, quota(166_667), quota(166_667)),  # or its start would fail
        ({}, quota(83_333, 50_000), quota(166_666)),
        ({}, Gap("gone"), None),
        ({}, NONE, None),
    ],
)
def test_on_v1_never_more_than_its_pod_has(
    settings: dict[str, Any], pod_quota: Bandwidth | Gap, expected: Bandwidth | None
) -> None:
    found = decided(starting(pod_quota=pod_quota), basis(settings, V1))
    assert found.quota == expected


def test_a_lower_quota_above_binds_on_v1_and_none_is_set() -> None:
    assert decided(starting(pod_quota=quota(50_000)), basis(version=V1)).quota == NONE
    assert decided(starting(pod_quota=quota(50_000)), basis(version=V2)).quota == quota(166_667)


def test_a_policy_that_fails_is_left_out() -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    broken = Policy(
        "broken", None, lambda *_: Needs(), fail, ignores_counters=True, knobs=(("quota",),)
    )
    about = basis(RATIO | {"broken": object()})
    assert decide_start(about, (broken, *POLICIES), starting()).quota == quota(166_667)


AT = Micros(1_000_000_000)
NOTE = StartNote(inner_ref(1, "c1").path, quota(200_000), quota(166_667), AT)


def found_at(seconds: int, stands: Bandwidth | Gap | None, *, named: bool = True) -> StartsFound:
    """`named`: whether the pod's status says that the group is its container's."""
    ref = inner_ref(1, "c1")
    readings = {} if stands is None else {ref.id: reading(ref, quota=stands)}
    seen = snapshot(readings=readings, at=Micros(AT + seconds * 1_000_000))
    box_ref = ref if named and stands is not None else Gap("its cgroup is not there")
    seen = msgspec.structs.replace(seen, workloads=(pod(box("c1", ref=box_ref)),))
    return find_starts(seen, (NOTE,))


def test_a_quota_that_stands_there_is_adopted() -> None:
    assert found_at(0, quota(166_667)) == StartsFound(((NOTE, inner_ref(1, "c1")),))
    assert found_at(10_000, quota(166_667)).adopted


def test_one_that_nobody_can_ask_for_yet_is_not_ours_yet() -> None:
    """It would be released, and the container would have the kubelet's quota for a while."""
    waiting = StartsFound(awaited=frozenset({inner_ref(1, "c1").id}))
    assert found_at(30, quota(166_667), named=False) == waiting
    assert found_at(601, quota(166_667), named=False).adopted


@pytest.mark.parametrize("stands", [quota(200_000), quota(5_000), Gap("not read")])
def test_another_one_is_waited_for_and_then_forgotten(stands: Bandwidth | Gap) -> None:
    assert found_at(5, stands) == StartsFound(awaited=frozenset({inner_ref(1, "c1").id}))
    assert found_at(11, stands) == StartsFound(forgotten=(NOTE,))


def test_a_container_that_does_not_start_is_forgotten_later() -> None:
    assert found_at(500, None) == StartsFound()
    assert found_at(601, None) == StartsFound(forgotten=(NOTE,))
