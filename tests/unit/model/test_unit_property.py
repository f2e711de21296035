"""Knob values and systemd's properties: there, back, and what gets rounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupVersion
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    KNOBS,
    MEMORY_HIGH,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.knob_text import KnobRangeError
from slackwater.model.unit_property import (
    INFINITY,
    Property,
    format_properties,
    parse_properties,
    properties_for,
    property_names,
    settle_in_unit,
    value_in,
    value_of,
)
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, Unlimited

V1, V2 = CgroupVersion.V1, CgroupVersion.V2


def quota(limit: int, period: int = 100_000) -> Bandwidth:
    return Bandwidth(Micros(limit), Micros(period))


@pytest.mark.parametrize(
    ("knob", "version", "systemd", "names"),
    [
        (QUOTA, V2, 239, ("CPUQuotaPerSecUSec", "CPUQuotaPeriodUSec")),
        (QUOTA, V1, 239, ("CPUQuotaPerSecUSec", "CPUQuotaPeriodUSec")),
        (WEIGHT, V2, 239, ("CPUWeight",)),
        (WEIGHT, V1, 239, ("CPUShares",)),
        (IDLE, V2, 252, ("CPUWeight",)),
        (IDLE, V2, 251, ()),
        (IDLE, V1, 252, ()),
        (CPUS, V2, 252, ("AllowedCPUs",)),
        (CPUS, V1, 252, ()),
        (MEMORY_MAX, V2, 252, ("MemoryMax",)),
        (MEMORY_MAX, V1, 252, ("MemoryLimit",)),
        (MEMORY_HIGH, V1, 252, ()),
        (BURST, V2, 257, ()),
    ],
)
def test_what_systemd_calls_a_knob(
    knob: Knob, version: CgroupVersion, systemd: int, names: tuple[str, ...]
) -> None:
    assert property_names(knob, version, systemd) == names


@pytest.mark.parametrize(
    ("knob", "value", "text"),
    [
        (QUOTA, quota(40_000), f"CPUQuotaPerSecUSec=400000 CPUQuotaPeriodUSec={INFINITY}"),
        (QUOTA, quota(41_001), f"CPUQuotaPerSecUSec=420000 CPUQuotaPeriodUSec={INFINITY}"),
        (QUOTA, quota(25_000, 50_000), "CPUQuotaPerSecUSec=500000 CPUQuotaPeriodUSec=50000"),
        (QUOTA, quota(1_000, 1_000_000), "CPUQuotaPerSecUSec=10000 CPUQuotaPeriodUSec=1000000"),
        (
            QUOTA,
            Bandwidth(UNLIMITED),
            f"CPUQuotaPerSecUSec={INFINITY} CPUQuotaPeriodUSec={INFINITY}",
        ),
        (WEIGHT, 79, "CPUWeight=79"),
        (IDLE, True, "CPUWeight=0"),
        (IDLE, False, f"CPUWeight={INFINITY}"),
        (CPUS, CpuSet.of([0, 2]), "AllowedCPUs=5"),
        (CPUS, CpuSet(), "AllowedCPUs=0"),
        (MEMORY_MAX, 123, "MemoryMax=123"),
        (MEMORY_MAX, UNLIMITED, f"MemoryMax={INFINITY}"),
    ],
)
def test_a_value_as_properties(knob: Knob, value: KnobValue, text: str) -> None:
    found = properties_for(knob, V2, value)
    assert format_properties(found) == text
    assert parse_properties(text) == found
    assert value_in(knob, text) == settle_in_unit(knob, value)


@pytest.mark.parametrize(
    ("knob", "value"),
    [(WEIGHT, 0), (WEIGHT, 10_001), (QUOTA, quota(999)), (MEMORY_MAX, -1), (BURST, 5), (IDLE, 1)],
)
def test_a_value_that_is_none(knob: Knob, value: KnobValue) -> None:
    with pytest.raises(KnobRangeError):
        properties_for(knob, V2, value)


@pytest.mark.parametrize(
    ("per_second", "period", "shown"),
    [
        (410_000, INFINITY, quota(41_000)),
        (5_000, INFINITY, quota(1_000, 200_000)),  # the period grows until it holds 1 ms
        (1, INFINITY, quota(1_000, 1_000_000)),  # measured: "1000 1000000"
        (INFINITY, INFINITY, Bandwidth(UNLIMITED)),
        (INFINITY, 50_000, Bandwidth(UNLIMITED, Micros(50_000))),
        (2_000_000, 1_000, quota(2_000, 1_000)),
    ],
)
def test_what_systemd_makes_of_a_quota(per_second: int, period: int, shown: Bandwidth) -> None:
    found = (Property("CPUQuotaPerSecUSec", per_second), Property("CPUQuotaPeriodUSec", period))
    assert value_of(QUOTA, found) == shown


def test_a_weight_that_is_not_set_is_the_default() -> None:
    assert value_in(WEIGHT, f"CPUWeight={INFINITY}") == 100
    assert value_in(WEIGHT, f"CPUShares={INFINITY}") == 1024
    assert value_in(IDLE, f"CPUWeight={INFINITY}") is False
    assert value_in(IDLE, "CPUWeight=0") is True


quotas = st.builds(
    quota, st.integers(1_000, 10**8), st.sampled_from([5_000, 50_000, 100_000, 250_000, 10**6])
)


@given(quotas)
def test_rounding_a_quota_never_lowers_it_and_settles(value: Bandwidth) -> None:
    settled = settle_in_unit(QUOTA, value)
    assert isinstance(settled, Bandwidth)
    assert not value.exceeds(settled)
    assert settle_in_unit(QUOTA, settled) == settled


@given(quotas)
def test_rounding_costs_less_than_one_percent_of_a_cpu_or_a_millisecond(value: Bandwidth) -> None:
    settled = settle_in_unit(QUOTA, value)
    assert isinstance(settled, Bandwidth)
    assert not isinstance(settled.limit, Unlimited)
    assert not isinstance(value.limit, Unlimited)
    assert settled.limit - value.limit <= max(value.period // 100, 1_000)


@given(st.sets(st.integers(0, 8191)))
def test_any_cpuset_survives_the_ledgers_text(cpus: set[int]) -> None:
    text = format_properties(properties_for(CPUS, V2, CpuSet.of(cpus)))
    assert value_in(CPUS, text) == CpuSet.of(cpus)


@given(st.text(max_size=60))
def test_garbage_is_a_gap_or_properties(text: str) -> None:
    found = parse_properties(text)
    if isinstance(found, Gap):
        assert found.reason
    else:
        assert parse_properties(format_properties(found)) == found


@pytest.mark.parametrize("text", ["", "CPUWeight", "=5", "CPUWeight=-1", "CPUWeight=x", "A=1 B"])
def test_texts_that_are_no_properties(text: str) -> None:
    assert isinstance(parse_properties(text), Gap)


def test_properties_of_another_knob_are_a_gap() -> None:
    assert isinstance(value_in(QUOTA, "CPUWeight=5"), Gap)
    assert isinstance(value_in(QUOTA, "CPUQuotaPerSecUSec=5"), Gap)
    assert isinstance(value_in(BURST, "CPUWeight=5"), Gap)


def test_only_a_quota_is_rounded() -> None:
    for knob in KNOBS:
        if knob is not QUOTA:
            assert settle_in_unit(knob, 12_345) == 12_345
