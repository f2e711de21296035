"""Settings of the agent itself: its tick, its patience, and what it does about rival writers."""

import enum

import msgspec

from slackwater.model.units import Micros, Permille
from slackwater.settings.bound import Bound, Unit
from slackwater.settings.choice import Choice
from slackwater.settings.section import Section, read_over, rendered


class Reading(enum.Enum):
    """How much of the tree is read at each tick."""

    NEEDED = "needed"
    EVERYTHING = "everything"


_MILLISECOND = 1_000
_SECOND = 1_000_000

PERIOD = Bound(
    "agent.period",
    _SECOND,
    100 * _MILLISECOND,
    60 * _SECOND,
    Unit.DURATION,
    "How often the agent looks and decides. 100ms is one CFS period: in less time the kernel's "
    "throttling counters say nothing new.",
)
HOLD_FOR = Bound(
    "agent.holdFor",
    30 * _SECOND,
    _SECOND,
    600 * _SECOND,
    Unit.DURATION,
    "How long what a policy asked for stays in force while the policy cannot see. After it the "
    "values are released: an old throttle is worse than none.",
)
RAISE_DEADBAND = Bound(
    "agent.raiseDeadband",
    1,
    0,
    2,
    Unit.PERMILLE,
    "A raise of a quota by less than this part of it is not written; cuts always are. 2 ‰ is the "
    "smallest step that a policy may take, so a larger deadband could hold a raise for ever.",
)
PRESSURE_STALL = Bound(
    "agent.pressureStall",
    50 * _MILLISECOND,
    5 * _MILLISECOND,
    500 * _MILLISECOND,
    Unit.DURATION,
    "Where the kernel offers PSI triggers: how long protected work must have waited for a CPU "
    "within 500ms, the kernel's shortest window, for the agent to look at once.",
)
YIELD_AFTER = Bound(
    "agent.yieldAfter",
    5,
    2,
    100,
    Unit.COUNT,
    "When somebody else has written a value so many times in a row, each within fightWithin of the "
    "one before, it belongs to the other writer and the agent leaves it alone.",
)
FIGHT_WITHIN = Bound(
    "agent.fightWithin",
    10 * _SECOND,
    _SECOND,
    30 * _SECOND,
    Unit.DURATION,
    "Two repairs of one value this close together are a fight. Well below 60s, at which the "
    "kubelet resets its tiers: that is expected and repaired for ever.",
)
YIELD_FOR = Bound(
    "agent.yieldFor",
    600 * _SECOND,
    10 * _SECOND,
    86_400 * _SECOND,
    Unit.DURATION,
    "How long a value that was yielded is left to the other writer before the agent tries again.",
)
STALLED_AFTER = Bound(
    "agent.stalledAfter",
    90 * _SECOND,
    10 * _SECOND,
    600 * _SECOND,
    Unit.DURATION,
    "/healthz fails when no tick has ended for this long, or for three periods if that is longer: "
    "a restart is the repair.",
)
READING = Choice(
    "agent.reading",
    Reading.NEEDED.value,
    tuple(word.value for word in Reading),
    "What is read at each tick: what the policies need, or every pod and container as well, for "
    "metrics of all of them. While `slackwater top` looks, everything is read anyway.",
)
KEPT_TICKS = Bound(
    "agent.keptTicks",
    60,
    1,
    3_600,
    Unit.COUNT,
    "How many whole ticks are kept in memory for explain and for recordings; fewer where every "
    "container is read, so that they stay within a few MiB.",
)

SECTION: Section = {
    "period": PERIOD,
    "hold_for": HOLD_FOR,
    "raise_deadband": RAISE_DEADBAND,
    "pressure_stall": PRESSURE_STALL,
    "yield_after": YIELD_AFTER,
    "fight_within": FIGHT_WITHIN,
    "yield_for": YIELD_FOR,
    "stalled_after": STALLED_AFTER,
    "reading": READING,
    "kept_ticks": KEPT_TICKS,
}


class AgentSettings(msgspec.Struct, frozen=True):
    """All of them inside their bounds, if they came through `read`."""

    period: Micros = Micros(PERIOD.default)
    hold_for: Micros = Micros(HOLD_FOR.default)
    raise_deadband: Permille = Permille(RAISE_DEADBAND.default)
    pressure_stall: Micros = Micros(PRESSURE_STALL.default)
    yield_after: int = YIELD_AFTER.default
    fight_within: Micros = Micros(FIGHT_WITHIN.default)
    yield_for: Micros = Micros(YIELD_FOR.default)
    stalled_after: Micros = Micros(STALLED_AFTER.default)
    reading: Reading = Reading(READING.default)
    kept_ticks: int = KEPT_TICKS.default


DEFAULTS = AgentSettings()


def read(value: object, where: str, base: AgentSettings = DEFAULTS) -> AgentSettings:
    """A file's section over `base`."""
    return read_over(SECTION, value, where, base)


def render(settings: AgentSettings) -> dict[str, object]:
    """The section of a file that reads as these settings."""
    return rendered(SECTION, settings)
