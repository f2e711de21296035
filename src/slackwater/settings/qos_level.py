"""Settings of the QoS level: what a pod's level does to its CPU."""

import enum
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import SettingsStruct


class StandIn(enum.Enum):
    """What is done for best-effort pods on a kernel without cpu.qos_level."""

    IDLE = "idle"
    WEIGHT = "weight"
    NONE = "none"


class QosLevelSettings(SettingsStruct, frozen=True):
    """Settings of the QoS level."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether the level that a pod's volcano.sh/qos-level names is set on its "
            "cgroups.",
        ),
    ] = False
    stand_in: Annotated[
        StandIn,
        Meta(
            description="What pods of level BE get where the kernel has no cpu.qos_level, a "
            "vendor's file: cpu.idle, or the lowest weight where that is missing too; the lowest "
            "weight at once; or nothing.",
        ),
    ] = StandIn.IDLE
