"""Settings of the agent itself: its tick, its patience, and what it does about rival writers."""

import enum
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import Count, Duration, Permillage, SettingsStruct
from slackwater.model.units import Micros, Permille

_MILLISECOND = 1_000
_SECOND = 1_000_000


class Reading(enum.Enum):
    """How much of the tree is read at each tick."""

    NEEDED = "needed"
    EVERYTHING = "everything"


class AgentSettings(SettingsStruct, frozen=True):
    """Settings of the agent itself."""

    period: Annotated[
        Duration,
        Meta(
            ge=100 * _MILLISECOND,
            le=60 * _SECOND,
            description="How often the agent looks and decides. 100ms is one CFS period: in less "
            "time the kernel's throttling counters say nothing new.",
        ),
    ] = Micros(_SECOND)
    hold_for: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=600 * _SECOND,
            description="How long what a policy asked for stays in force while the policy cannot "
            "see. After it the values are released: an old throttle is worse than none.",
        ),
    ] = Micros(30 * _SECOND)
    raise_deadband: Annotated[
        Permillage,
        Meta(
            ge=0,
            le=2,
            description="A raise of a quota by less than this part of it is not written; cuts "
            "always are. 2 ‰ is the smallest step that a policy may take, so a larger deadband "
            "could hold a raise for ever.",
        ),
    ] = Permille(1)
    pressure_stall: Annotated[
        Duration,
        Meta(
            ge=5 * _MILLISECOND,
            le=500 * _MILLISECOND,
            description="Where the kernel offers PSI triggers: how long protected work must have "
            "waited for a CPU within 500ms, the kernel's shortest window, for the agent to look "
            "at once.",
        ),
    ] = Micros(50 * _MILLISECOND)
    yield_after: Annotated[
        Count,
        Meta(
            ge=2,
            le=100,
            description="When somebody else has written a value so many times in a row, each "
            "within fightWithin of the one before, it belongs to the other writer and the agent "
            "leaves it alone.",
        ),
    ] = 5
    fight_within: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=30 * _SECOND,
            description="Two repairs of one value this close together are a fight. Well below "
            "60s, at which the kubelet resets its tiers: that is expected and repaired for ever.",
        ),
    ] = Micros(10 * _SECOND)
    yield_for: Annotated[
        Duration,
        Meta(
            ge=10 * _SECOND,
            le=86_400 * _SECOND,
            description="How long a value that was yielded is left to the other writer before "
            "the agent tries again.",
        ),
    ] = Micros(600 * _SECOND)
    stalled_after: Annotated[
        Duration,
        Meta(
            ge=10 * _SECOND,
            le=600 * _SECOND,
            description="/healthz fails when no tick has ended for this long, or for three "
            "periods if that is longer: a restart is the repair.",
        ),
    ] = Micros(90 * _SECOND)
    reading: Annotated[
        Reading,
        Meta(
            description="What is read at each tick: what the policies need, or every pod and "
            "container as well, for metrics of all of them. While `slackwater top` looks, "
            "everything is read anyway.",
        ),
    ] = Reading.NEEDED
    kept_ticks: Annotated[
        Count,
        Meta(
            ge=1,
            le=3_600,
            description="How many whole ticks are kept in memory for explain and for recordings; "
            "fewer where every container is read, so that they stay within a few MiB.",
        ),
    ] = 60


DEFAULTS = AgentSettings()
