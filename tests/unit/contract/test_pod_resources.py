"""PodRequests, PodLimits and the QoS class by Kubernetes' rules."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.document import Field
from slackwater.contract.pod_resources import (
    NO_AMOUNTS,
    Container,
    ContainerKind,
    Limits,
    PodResources,
    Requests,
    pod_extended,
    pod_requests,
    qos_tier,
    read_amounts,
    read_requests,
)
from slackwater.model.cgroup import Tier
from slackwater.model.elastic import ELASTIC_CPU, ELASTIC_MEMORY
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.model.units import UNLIMITED, Bytes, MilliCpu, Unlimited
from tests.unit.contract.documents import ANYTHING

INIT, SIDECAR = ContainerKind.INIT, ContainerKind.SIDECAR
MAIN, EPHEMERAL = ContainerKind.MAIN, ContainerKind.EPHEMERAL


def asks(kind: ContainerKind, cpu: int, memory: int = 0) -> Container:
    return Container("c", kind, requests=Requests(MilliCpu(cpu), Bytes(memory)))


def limits(cpu: int | Unlimited = UNLIMITED, memory: int | Unlimited = UNLIMITED) -> Limits:
    return Limits(
        cpu if isinstance(cpu, Unlimited) else MilliCpu(cpu),
        memory if isinstance(memory, Unlimited) else Bytes(memory),
    )


def both(kind: ContainerKind, cpu: int, memory: int, limit: Limits) -> Container:
    return Container("c", kind, "", Requests(MilliCpu(cpu), Bytes(memory)), limit)


def pod(*containers: Container) -> PodResources:
    return PodResources(containers)


@pytest.mark.parametrize(
    ("containers", "cpu"),
    [
        ((), 0),
        ((asks(MAIN, 100), asks(MAIN, 200)), 300),
        ((asks(INIT, 500), asks(MAIN, 100), asks(MAIN, 200)), 500),
        ((asks(INIT, 250), asks(INIT, 200), asks(MAIN, 300)), 300),
        ((asks(SIDECAR, 50), asks(MAIN, 300)), 350),
        # An init container after a sidecar runs beside it; one before it does not.
        ((asks(SIDECAR, 50), asks(INIT, 400), asks(MAIN, 100)), 450),
        ((asks(INIT, 400), asks(SIDECAR, 50), asks(MAIN, 100)), 400),
        ((asks(SIDECAR, 50), asks(INIT, 400), asks(SIDECAR, 70), asks(MAIN, 100)), 450),
        ((asks(SIDECAR, 50), asks(SIDECAR, 70), asks(INIT, 10), asks(MAIN, 0)), 130),
        ((asks(MAIN, 100), asks(EPHEMERAL, 900)), 100),
    ],
)
def test_requests(containers: tuple[Container, ...], cpu: int) -> None:
    assert pod_requests(PodResources(containers)).cpu == cpu


def test_each_resource_has_its_own_maximum() -> None:
    made = pod(asks(INIT, 500, 10), asks(MAIN, 100, 300))
    assert pod_requests(made) == Requests(MilliCpu(500), Bytes(300))


def test_overhead_is_added() -> None:
    overhead = Requests(MilliCpu(250), Bytes(120))
    made = PodResources((asks(MAIN, 100, 30),), overhead=overhead)
    assert pod_requests(made) == Requests(MilliCpu(350), Bytes(150))


@pytest.mark.parametrize(
    ("own", "limit", "containers", "cpu"),
    [
        (700, UNLIMITED, (asks(MAIN, 100),), 700),
        (0, 900, (asks(MAIN, 100),), 100),
        (0, 900, (asks(MAIN, 0),), 900),
        (300, 900, (), 300),
        (0, UNLIMITED, (asks(MAIN, 100),), 100),
    ],
)
def test_the_pods_own_requests(
    own: int, limit: int | Unlimited, containers: tuple[Container, ...], cpu: int
) -> None:
    made = PodResources(containers, Requests(MilliCpu(own)), limits(limit))
    assert pod_requests(made).cpu == cpu


@pytest.mark.parametrize(
    ("made", "tier"),
    [
        (pod(), Tier.BESTEFFORT),
        (pod(asks(MAIN, 0), asks(INIT, 0)), Tier.BESTEFFORT),
        (pod(asks(MAIN, 0), asks(EPHEMERAL, 100)), Tier.BESTEFFORT),
        (pod(asks(MAIN, 100)), Tier.BURSTABLE),
        (pod(asks(MAIN, 0, 100)), Tier.BURSTABLE),
        (pod(asks(INIT, 100), asks(MAIN, 0)), Tier.BURSTABLE),
        (pod(both(MAIN, 0, 0, limits(100))), Tier.BURSTABLE),
        (pod(both(MAIN, 100, 50, limits(100, 50))), Tier.GUARANTEED),
        (pod(both(MAIN, 90, 50, limits(100, 50))), Tier.BURSTABLE),
        (pod(both(MAIN, 100, 50, limits(100))), Tier.BURSTABLE),
        (pod(both(MAIN, 100, 50, limits(100, 50)), asks(MAIN, 0)), Tier.BURSTABLE),
        (pod(asks(INIT, 0), both(MAIN, 100, 50, limits(100, 50))), Tier.BURSTABLE),
        (
            pod(both(SIDECAR, 1, 1, limits(1, 1)), both(MAIN, 100, 50, limits(100, 50))),
            Tier.GUARANTEED,
        ),
        (
            pod(both(MAIN, 100, 50, limits(100, 50)), Container("d", EPHEMERAL)),
            Tier.GUARANTEED,
        ),
        # spec.resources speaks for all containers.
        (
            PodResources(
                (asks(MAIN, 0),), Requests(MilliCpu(100), Bytes(50)), limits(cpu=100, memory=50)
            ),
            Tier.GUARANTEED,
        ),
        (PodResources((asks(MAIN, 0),), own_limits=limits(100, 50)), Tier.GUARANTEED),
        (PodResources((asks(MAIN, 60),), own_limits=limits(100, 50)), Tier.BURSTABLE),
        (PodResources((), Requests(MilliCpu(100))), Tier.BURSTABLE),
        (
            PodResources((both(MAIN, 1, 1, limits(1, 1)),), Requests(MilliCpu(100), Bytes(9))),
            Tier.BURSTABLE,
        ),
    ],
)
def test_qos(made: PodResources, tier: Tier) -> None:
    assert qos_tier(made) is tier


CONTAINERS = st.lists(
    st.builds(asks, st.sampled_from(ContainerKind), st.integers(0, 9_000), st.integers(0, 9_000)),
    max_size=6,
).map(tuple)


@given(CONTAINERS)
def test_a_pod_asks_for_no_less_than_any_of_its_containers(
    containers: tuple[Container, ...],
) -> None:
    whole = pod_requests(PodResources(containers)).cpu
    counted = [each for each in containers if each.kind is not EPHEMERAL]
    assert all(whole >= each.requests.cpu for each in counted)
    assert whole <= sum(each.requests.cpu for each in counted)


@given(CONTAINERS, st.integers(1, 500))
def test_one_more_container_never_asks_for_less(
    containers: tuple[Container, ...], cpu: int
) -> None:
    before = pod_requests(PodResources(containers)).cpu
    assert pod_requests(PodResources((*containers, asks(MAIN, cpu)))).cpu >= before


@given(CONTAINERS)
def test_best_effort_is_asking_for_nothing(containers: tuple[Container, ...]) -> None:
    made = PodResources(containers)
    assert (qos_tier(made) is Tier.BESTEFFORT) == (pod_requests(made) == Requests())


@given(st.lists(st.builds(Container, st.just("c"), st.sampled_from(ContainerKind)), max_size=4))
def test_extended_resources_count_nowhere(containers: list[Container]) -> None:
    amounts: dict[str, int | Gap] = {"kubernetes.io/batch-cpu": 500, "a/b": Gap("bad")}
    asking = PodResources(
        tuple(
            msgspec.structs.replace(each, extended_requests=amounts, extended_limits=amounts)
            for each in containers
        )
    )
    plain = pod(*containers)
    assert pod_requests(asking) == pod_requests(plain)
    assert qos_tier(asking) is qos_tier(plain)


EXTENDED = "kubernetes.io/batch-cpu"


@pytest.mark.parametrize(
    ("limits", "whole"),
    [
        ((500, 1000), {EXTENDED: 1500}),
        ((500, None), {}),
        ((500, 0), {}),  # zero is no limit: the sum of the others would cap it
        ((0, 0), {}),
    ],
)
def test_a_pods_extended_limit_needs_every_containers(
    limits: tuple[int | None, ...], whole: dict[str, int]
) -> None:
    made = tuple(
        Container(f"c{number}", extended_limits={} if limit is None else {EXTENDED: limit})
        for number, limit in enumerate(limits)
    )
    assert pod_extended(PodResources(made)).limits == whole


def test_containers_that_only_look_on_need_no_limit() -> None:
    main = Container("main", extended_limits={EXTENDED: 500})
    look = Container("look", ContainerKind.EPHEMERAL)
    assert pod_extended(PodResources((main, look))).limits == {EXTENDED: 500}


def test_an_amount_that_one_container_has_wrong_is_unknown() -> None:
    good, bad = ({EXTENDED: amount} for amount in (500, Gap("'200m'")))
    made = (Container("a", extended_limits=good), Container("b", extended_limits=bad))
    assert pod_extended(PodResources(made)).limits == {EXTENDED: Gap("'200m'")}


CPU, MEMORY, OTHER = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "example.com/gpu"
LARGEST = 2**63 - 1
MILLI = "a whole number of milliCPU, zero or more, such as"
CORES = "CPUs to a thousandth, zero or more, such as 2 or 500m"
SIZE = "a whole number of bytes, zero or more, such as 2Gi"
WHOLE = "a whole number, zero or more, such as 2"


def field(value: object) -> Field:
    return Field("pod.yaml", "limits", value)


def sentence(name: str, seen: str, wanted: str) -> Gap:
    return Gap(f"pod.yaml: limits['{name}'] is {seen}, but must be {wanted}")


@pytest.mark.parametrize(
    ("name", "value", "amount"),
    [
        (CPU, "500", 500),
        (CPU, 500, 500),
        (CPU, "0", 0),
        (CPU, "1k", 1000),
        (CPU, "1.5k", 1500),
        (CPU, "2000m", 2),
        (CPU, 500.0, 500),
        (CPU, "+5", 5),
        (CPU, "-0", 0),
        (MEMORY, "5Gi", 5368709120),  # facts row 27
        (MEMORY, "1.5Gi", 1610612736),
        (MEMORY, 10737418240, 10737418240),  # facts row 25
        (ELASTIC_CPU, "2", 2000),
        (ELASTIC_CPU, 2, 2000),
        (ELASTIC_CPU, "500m", 500),
        (ELASTIC_CPU, 0.5, 500),
        (ELASTIC_CPU, "1k", 1_000_000),
        (ELASTIC_MEMORY, "1Gi", 2**30),
        ("example.com/cpu", "2", 2),
        (OTHER, "1", 1),
        (OTHER, str(LARGEST), LARGEST),
    ],
)
def test_whole_amounts(name: str, value: object, amount: int) -> None:
    assert read_amounts(field({name: value})) == {name: amount}


@pytest.mark.parametrize(
    ("name", "value", "seen", "wanted"),
    [
        # volcano issue 4625: Value() of it is 1, a quota of a thousandth of a CPU.
        (CPU, "200m", "'200m'", f"{MILLI} 200"),
        (CPU, "0.5", "'0.5'", f"{MILLI} 500"),
        (CPU, 1.5, "1.5", f"{MILLI} 1500"),
        (CPU, "0.3m", "'0.3m'", f"{MILLI} 1"),
        (CPU, "1u", "'1u'", f"{MILLI} 1"),
        (CPU, "-200m", "'-200m'", f"{MILLI} 500"),
        (CPU, "-5", "'-5'", f"{MILLI} 500"),
        (CPU, "x", "'x'", f"{MILLI} 500"),
        (CPU, "", "''", f"{MILLI} 500"),
        (CPU, True, "true", f"{MILLI} 500"),
        (CPU, ["1"], "a list", f"{MILLI} 500"),
        (CPU, math.nan, "nan", f"{MILLI} 500"),
        (CPU, str(LARGEST + 1), f"'{2**63}'", f"{MILLI} 500"),
        (CPU, 10**80, "a number beyond 64 bits", f"{MILLI} 500"),
        (MEMORY, "0.5", "'0.5'", SIZE),
        (MEMORY, "200m", "'200m'", SIZE),
        (MEMORY, "-1Gi", "'-1Gi'", SIZE),
        (ELASTIC_CPU, "0.5m", "'0.5m'", CORES),
        (ELASTIC_CPU, "-1", "'-1'", CORES),
        (ELASTIC_CPU, "two", "'two'", CORES),
        (ELASTIC_CPU, str(LARGEST), f"'{LARGEST}'", CORES),
        (ELASTIC_CPU, True, "true", CORES),
        (ELASTIC_MEMORY, "0.5", "'0.5'", SIZE),
        (OTHER, "500m", "'500m'", WHOLE),
        (OTHER, {}, "a mapping", WHOLE),
    ],
)
def test_other_amounts(name: str, value: object, seen: str, wanted: str) -> None:
    assert read_amounts(field({name: value})) == {name: sentence(name, seen, wanted)}


@pytest.mark.parametrize("name", ["koordinator.sh/batch-cpu", "a.b.c/batch-cpu"])
def test_batch_cpu_of_any_domain_counts_milli_cpu(name: str) -> None:
    assert read_amounts(field({name: "200m"})) == {name: sentence(name, "'200m'", f"{MILLI} 200")}


@pytest.mark.parametrize(
    "stated",
    [None, {}, {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"}, {CPU: None}],
)
def test_without_extended_resources_one_mapping_serves_all(stated: object) -> None:
    found = None if stated is None else field(stated)
    assert read_amounts(found) is NO_AMOUNTS
    assert read_requests(found, NO_AMOUNTS) is NO_AMOUNTS


def test_one_bad_amount_leaves_the_others() -> None:
    found = read_amounts(field({CPU: "abc", MEMORY: "1Ki", OTHER: 2}))
    assert found == {CPU: sentence(CPU, "'abc'", f"{MILLI} 500"), MEMORY: 1024, OTHER: 2}


BAD = Gap("bad")


@pytest.mark.parametrize(
    ("stated", "limits", "requests"),
    [
        (None, {CPU: 5}, {CPU: 5}),
        ({}, {CPU: 5, MEMORY: 7}, {CPU: 5, MEMORY: 7}),
        ({CPU: "3"}, {CPU: 5}, {CPU: 3}),
        ({CPU: "3"}, {MEMORY: 5}, {MEMORY: 5, CPU: 3}),
        ({CPU: "0"}, {CPU: 5}, {CPU: 0}),
        ({CPU: "3"}, {}, {CPU: 3}),
        ({CPU: None}, {CPU: 5}, {CPU: 5}),
        (None, {CPU: BAD}, {CPU: BAD}),
        ({CPU: "3"}, {CPU: BAD}, {CPU: 3}),
        ({CPU: "x"}, {CPU: 5}, {CPU: sentence(CPU, "'x'", f"{MILLI} 500")}),
        ({CPU: "6"}, {CPU: 5}, {CPU: sentence(CPU, "'6'", "at most the limit, which is 5")}),
        ({ELASTIC_CPU: "500m"}, {ELASTIC_CPU: 2000}, {ELASTIC_CPU: 500}),
        (
            {ELASTIC_CPU: "3"},
            {ELASTIC_CPU: 2000},
            {ELASTIC_CPU: sentence(ELASTIC_CPU, "'3'", "at most the limit, which is 2000m")},
        ),
    ],
)
def test_requests_default_to_limits(
    stated: object, limits: dict[str, int | Gap], requests: dict[str, int | Gap]
) -> None:
    assert read_requests(None if stated is None else field(stated), limits) == requests


def test_requests_like_the_limits_are_the_limits() -> None:
    limits = read_amounts(field({CPU: "5"}))
    assert read_requests(None, limits) is limits
    assert read_requests(field({CPU: 5}), limits) is limits


@given(st.integers(0, LARGEST))
def test_every_whole_number_reads_back(number: int) -> None:
    assert read_amounts(field({CPU: str(number)})) == {CPU: number}
    assert read_amounts(field({CPU: number})) == {CPU: number}


@given(st.integers(1, 10**15))
def test_what_the_sentence_says_to_write_can_be_written(milli: int) -> None:
    """A part of a CPU is refused with the number of milliCPU that was meant."""
    found = read_amounts(field({CPU: f"{milli}m"}))[CPU]
    if milli % 1000:
        assert isinstance(found, Gap)
        meant = found.reason.rpartition(" ")[2]
        assert read_amounts(field({CPU: meant})) == {CPU: milli}
    else:
        assert found == milli // 1000


@given(st.sampled_from([CPU, MEMORY, OTHER, ELASTIC_CPU]), ANYTHING)
def test_any_amount_is_a_number_or_one_line(name: str, value: object) -> None:
    for found in read_amounts(field({name: value})).values():
        if isinstance(found, Gap):
            assert found.reason.isprintable()
        else:
            assert 0 <= found <= LARGEST


@given(st.dictionaries(st.text(max_size=5) | st.integers(), ANYTHING) | ANYTHING)
def test_any_mapping_reads_or_is_refused(value: object) -> None:
    try:
        found = read_amounts(field(value))
    except InvalidError as error:
        assert str(error).isprintable()
    else:
        assert all("/" in name for name in found)
