"""Settings of quota bursts: how far above its quota a pod that asks for it may go."""

import msgspec

from slackwater.model.units import Percent
from slackwater.settings.bound import Bound, Unit
from slackwater.settings.choice import Flag
from slackwater.settings.section import Section, read_over, rendered

ENABLED = Flag(
    "quotaBurst.enabled",
    False,
    "Whether pods whose volcano.sh/enable-quota-burst is true may spend in a busy period what "
    "they left of their quota in quiet ones.",
)
MOST = Bound(
    "quotaBurst.most",
    100,
    1,
    100,
    Unit.PERCENT,
    "The most that a burst may be, as a part of the container's quota, whatever the pod asks for. "
    "The kernel refuses a burst above the quota.",
)

SECTION: Section = {
    "enabled": ENABLED,
    "most": MOST,
}


class QuotaBurstSettings(msgspec.Struct, frozen=True):
    """All of them inside their bounds, if they came through `read`."""

    enabled: bool = ENABLED.default
    most: Percent = Percent(MOST.default)


DEFAULTS = QuotaBurstSettings()


def read(value: object, where: str, base: QuotaBurstSettings = DEFAULTS) -> QuotaBurstSettings:
    """A file's section over `base`."""
    return read_over(SECTION, value, where, base)


def render(settings: QuotaBurstSettings) -> dict[str, object]:
    """The section of a file that reads as these settings."""
    return rendered(SECTION, settings)
