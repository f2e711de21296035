"""Settings of the QoS level: what a pod's level does to its CPU."""

import enum

import msgspec

from slackwater.settings.choice import Choice, Flag
from slackwater.settings.section import Section, read_over, rendered


class StandIn(enum.Enum):
    """What is done for best-effort pods on a kernel without cpu.qos_level."""

    IDLE = "idle"
    WEIGHT = "weight"
    NONE = "none"


ENABLED = Flag(
    "qosLevel.enabled",
    False,
    "Whether the level that a pod's volcano.sh/qos-level names is set on its cgroups.",
)
STAND_IN = Choice(
    "qosLevel.standIn",
    StandIn.IDLE.value,
    tuple(word.value for word in StandIn),
    "What pods of level BE get where the kernel has no cpu.qos_level, a vendor's file: cpu.idle, "
    "or the lowest weight where that is missing too; the lowest weight at once; or nothing.",
)

SECTION: Section = {
    "enabled": ENABLED,
    "stand_in": STAND_IN,
}


class QosLevelSettings(msgspec.Struct, frozen=True):
    """All of them inside their bounds, if they came through `read`."""

    enabled: bool = ENABLED.default
    stand_in: StandIn = StandIn(STAND_IN.default)


DEFAULTS = QosLevelSettings()


def read(value: object, where: str, base: QosLevelSettings = DEFAULTS) -> QosLevelSettings:
    """A file's section over `base`."""
    return read_over(SECTION, value, where, base)


def render(settings: QosLevelSettings) -> dict[str, object]:
    """The section of a file that reads as these settings."""
    return rendered(SECTION, settings)
