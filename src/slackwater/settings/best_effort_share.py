"""Settings of the best-effort tier's share: how much CPU it may have, and how that may move.

The names are ours; what Volcano's cpuThrottlingConfig calls them is contract.volcano_sections.
"""

import enum
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import Percentage, SettingsStruct
from slackwater.model.units import Percent


class Accounting(enum.Enum):
    """What counts as used by everything that is not best-effort."""

    USAGE = "usage"
    REQUEST = "request"


class BestEffortShareSettings(SettingsStruct, frozen=True):
    """Settings of the best-effort tier's share."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether the best-effort tier has a quota at all. Switching it off "
            "releases the tier, once.",
        ),
    ] = False
    threshold: Annotated[
        Percentage,
        Meta(
            ge=1,
            le=100,
            description="The part of the node's allocatable CPU that all its work together may "
            "use; what the other tiers leave of it is the best-effort tier's budget. The rest is "
            "kept free for their peaks.",
        ),
    ] = Percent(80)
    jitter: Annotated[
        Percentage,
        Meta(
            ge=0,
            description="A change of the quota smaller than this part of it is not made: writing "
            "a quota disturbs the tier. 0 makes every change.",
        ),
    ] = Percent(1)
    recover: Annotated[
        Percentage,
        Meta(
            ge=1,
            description="The most that the quota may grow in one tick, as a part of it. Cuts are "
            "made at once, raises slowly, so that a short lull does not let best-effort work back "
            "in full.",
        ),
    ] = Percent(10)
    accounting: Annotated[
        Accounting,
        Meta(
            description="What the other tiers are counted with: the CPU they use, or the larger "
            "of that and what their pods request.",
        ),
    ] = Accounting.USAGE
