"""Settings of `slackwater rebalance simulate`, beside those of a workload."""

from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import UNIT, Count, Duration, SettingsStruct, Unit
from slackwater.model.units import Micros
from slackwater.settings.setting import Names, Setting, settings_of

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_DAY = 24 * 60 * _MINUTE


class SimulationSettings(SettingsStruct, frozen=True):
    """The first five are of a generated day and mean nothing for a recording."""

    pods: Annotated[
        Count, Meta(ge=2, le=1000, description="How many pods a generated day has.")
    ] = 12
    partitions: Annotated[
        Count,
        Meta(
            ge=1,
            le=10_000,
            description="The partitions they consume: assigned to the pods by number, as Kafka's "
            "assignors do.",
        ),
    ] = 60
    skew: Annotated[
        float,
        Meta(
            ge=0.0,
            le=3.0,
            description="How unequal partitions are: Zipf's exponent. 0: all weigh the same.",
        ),
    ] = 0.7
    hours: Annotated[float, Meta(ge=1.0, le=168.0, description="How long a generated day is.")] = (
        24.0
    )
    seed: Annotated[
        Count,
        Meta(
            ge=0, le=2**63 - 1, description="Of all randomness: the same seed gives the same day."
        ),
    ] = 0
    request: Annotated[
        float,
        Meta(
            ge=0.001,
            le=10_000.0,
            description="A pod's request in cores: for a generated day, and for pods whose "
            "request a recording does not have.",
        ),
    ] = 1.0
    hpa_target: Annotated[
        float,
        Meta(
            ge=1.0,
            le=1000.0,
            description="The HPA's target, in percent of the request.",
            extra={UNIT: Unit.PERCENT},
        ),
    ] = 70.0
    hpa_average_value: (
        Annotated[
            float,
            Meta(
                ge=0.001,
                le=10_000.0,
                description="The HPA's target in cores per pod, instead of a percentage.",
            ),
        ]
        | None
    ) = None
    stickiness: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1.0,
            description="The part of a rotated pod's load that goes to its own successor, as a "
            "hot key does. 0: all of it is redistributed; 1: rotating changes nothing.",
        ),
    ] = 0.0
    step: Annotated[
        Duration,
        Meta(
            ge=10 * _SECOND,
            le=_DAY,
            description="Time between rounds, like the CronJob's schedule.",
        ),
    ] = Micros(5 * _MINUTE)


SETTINGS: tuple[Setting, ...] = settings_of(
    SimulationSettings, Names("SLACKWATER_REBALANCE_SIMULATE_")
)
#: Those that say nothing about a recording.
OF_A_GENERATED_DAY = SETTINGS[:5]
