"""Settings of the best-effort tier's share: how much CPU it may have, and how that may move.

The names are ours; what Volcano's cpuThrottlingConfig calls them is contract.volcano_sections.
"""

import enum

import msgspec

from slackwater.model.units import Percent
from slackwater.settings.bound import Bound, Unit
from slackwater.settings.choice import Choice, Flag
from slackwater.settings.section import Section, read_over, rendered


class Accounting(enum.Enum):
    """What counts as used by everything that is not best-effort."""

    USAGE = "usage"
    REQUEST = "request"


ENABLED = Flag(
    "bestEffortShare.enabled",
    False,
    "Whether the best-effort tier has a quota at all. Switching it off releases the tier, once.",
)
THRESHOLD = Bound(
    "bestEffortShare.threshold",
    80,
    1,
    100,
    Unit.PERCENT,
    "The part of the node's allocatable CPU that all its work together may use; what the other "
    "tiers leave of it is the best-effort tier's budget. The rest is kept free for their peaks.",
)
JITTER = Bound(
    "bestEffortShare.jitter",
    1,
    0,
    None,
    Unit.PERCENT,
    "A change of the quota smaller than this part of it is not made: writing a quota disturbs "
    "the tier. 0 makes every change.",
)
RECOVER = Bound(
    "bestEffortShare.recover",
    10,
    1,
    None,
    Unit.PERCENT,
    "The most that the quota may grow in one tick, as a part of it. Cuts are made at once, "
    "raises slowly, so that a short lull does not let best-effort work back in full.",
)
ACCOUNTING = Choice(
    "bestEffortShare.accounting",
    Accounting.USAGE.value,
    tuple(word.value for word in Accounting),
    "What the other tiers are counted with: the CPU they use, or the larger of that and what "
    "their pods request.",
)

SECTION: Section = {
    "enabled": ENABLED,
    "threshold": THRESHOLD,
    "jitter": JITTER,
    "recover": RECOVER,
    "accounting": ACCOUNTING,
}


class BestEffortShareSettings(msgspec.Struct, frozen=True):
    """All of them inside their bounds, if they came through `read`."""

    enabled: bool = ENABLED.default
    threshold: Percent = Percent(THRESHOLD.default)
    jitter: Percent = Percent(JITTER.default)
    recover: Percent = Percent(RECOVER.default)
    accounting: Accounting = Accounting(ACCOUNTING.default)


DEFAULTS = BestEffortShareSettings()


def read(
    value: object, where: str, base: BestEffortShareSettings = DEFAULTS
) -> BestEffortShareSettings:
    """A file's section over `base`.

    A foreign dialect's section comes through here as well, with our keys, so that it meets
    the same bounds.
    """
    return read_over(SECTION, value, where, base)


def render(settings: BestEffortShareSettings) -> dict[str, object]:
    """The section of a file that reads as these settings."""
    return rendered(SECTION, settings)
