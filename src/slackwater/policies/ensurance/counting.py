"""Counts how often in a row a metric was above a rule's value, and what follows from it.

Both counts are of measurements in a row: one that is not above ends the count of those above, and
the other way round. A rule is triggered while it is above as often as it asks for; it is restored
when it has not been above as often as it asks for and the cool-down since the action's last trigger
is over.

A rule that triggers again soon after it was restored waits twice as long the next time, up to a
limit, so that trigger and restore do not follow each other for ever. Soon is within the wait that
it had; each further such wait without a trigger halves it again.
"""

import enum

import msgspec

from slackwater.model.decision import RuleState
from slackwater.model.gap import Gap
from slackwater.model.units import Micros

_SECOND = 1_000_000
#: Measurements until one says what an action brought: the next one is of the time before it, and
#: the one after it has the requests that were waiting then.
_SEEN_AFTER = 3
#: A metric that is missing for less is not told: after a start counters and histograms have no
#: difference yet, and a service that is restarted answers again soon. What waiting does not mend is
#: told at once.
_TOLD_AFTER = Micros(15 * _SECOND)


class Verdict(enum.Enum):
    """What one measurement means for a rule."""

    NONE = "none"
    TRIGGERED = "triggered"
    RESTORED = "restored"


class RuleMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rule between ticks. `about` is what it counts: where that is another one, counting starts
    anew. `since` is when the state began, `triggered_at` its last trigger, `restored_at` when what
    it did began to be undone. `factor` multiplies the cool-down."""

    about: str = ""
    above: int = 0
    below: int = 0
    state: RuleState = RuleState.QUIET
    since: Micros | None = None
    triggered_at: Micros | None = None
    restored_at: Micros | None = None
    factor: int = 1
    missing_since: Micros | None = None
    #: When the measurement that was counted last was made, where a source is slower than the ticks.
    measured_at: Micros | None = None
    #: Why, once it has lasted; the same words while only an age in them changes.
    missing: str = ""


class CountingRule(msgspec.Struct, frozen=True):
    """What counting has to know of a rule. The cool-down is the action's, in seconds."""

    avoidance: int
    restores_after: int
    cool_down: int
    longest_factor: int

    def counts_above(self) -> int:
        """Twice as many as trigger, and not too few: then what was tried first was not enough."""
        return self.avoidance + max(self.avoidance, _SEEN_AFTER)


def count_measurement(
    memory: RuleMemory, rule: CountingRule, *, is_above: bool, at: Micros
) -> tuple[RuleMemory, Verdict]:
    """After one more measurement. A cool-down that is over is seen by end_cool_down()."""
    memory = _add(memory, rule, is_above=is_above)
    if is_above:
        if memory.above < rule.avoidance:
            return memory, Verdict.NONE
        return _trigger(memory, rule, at), Verdict.TRIGGERED
    if memory.triggered_at is None or memory.below < rule.restores_after:
        return memory, Verdict.NONE
    if memory.state is RuleState.TRIGGERED:
        memory = _enter(memory, RuleState.COOLING, at)
    return memory, Verdict.RESTORED


def _add(memory: RuleMemory, rule: CountingRule, *, is_above: bool) -> RuleMemory:
    """Counts end where nothing depends on them any more: a rule at rest stays the same value."""
    above = min(memory.above + 1, rule.counts_above()) if is_above else 0
    below = 0 if is_above else min(memory.below + 1, rule.restores_after)
    if (above, below, None) == (memory.above, memory.below, memory.missing_since):
        return memory
    return msgspec.structs.replace(memory, above=above, below=below, missing_since=None, missing="")


def _trigger(memory: RuleMemory, rule: CountingRule, at: Micros) -> RuleMemory:
    if memory.state in (RuleState.QUIET, RuleState.RESTORING):
        memory = msgspec.structs.replace(memory, factor=_next_factor(memory, rule, at))
    memory = _enter(memory, RuleState.TRIGGERED, at)
    return msgspec.structs.replace(memory, triggered_at=at)


def _next_factor(memory: RuleMemory, rule: CountingRule, at: Micros) -> int:
    if memory.restored_at is None:
        return 1
    calm = at - memory.restored_at
    factor = memory.factor
    if calm <= rule.cool_down * factor * _SECOND:
        return min(2 * factor, rule.longest_factor)
    while factor > 1 and calm > rule.cool_down * factor * _SECOND:
        calm -= rule.cool_down * factor * _SECOND
        factor //= 2
    return min(factor, rule.longest_factor)


def _enter(memory: RuleMemory, state: RuleState, at: Micros) -> RuleMemory:
    if memory.state is state:
        return memory
    return msgspec.structs.replace(memory, state=state, since=at)


def cools_until(memory: RuleMemory, rule: CountingRule, last_trigger: Micros) -> Micros:
    """`last_trigger` is the action's, whichever rule it was."""
    return Micros(last_trigger + rule.cool_down * memory.factor * _SECOND)


def end_cool_down(
    memory: RuleMemory, rule: CountingRule, last_trigger: Micros, at: Micros
) -> RuleMemory:
    """Of a rule that was just restored: what it did is undone from now on."""
    if memory.state is not RuleState.COOLING or at <= cools_until(memory, rule, last_trigger):
        return memory
    memory = _enter(memory, RuleState.RESTORING, at)
    return msgspec.structs.replace(memory, restored_at=at)


def end_restoring(memory: RuleMemory, at: Micros) -> RuleMemory:
    """Nothing is left of what it did."""
    return _enter(memory, RuleState.QUIET, at) if memory.state is RuleState.RESTORING else memory


def keep_rule(memory: RuleMemory) -> RuleMemory:
    """What of a rule outlives the agent: what it did, and how long that stays. It changes only
    when something happens, not with each measurement."""
    if memory.state is RuleState.TRIGGERED:
        return RuleMemory(
            memory.about,
            state=RuleState.COOLING,
            restored_at=memory.restored_at,
            factor=memory.factor,
        )
    return RuleMemory(
        memory.about,
        state=memory.state,
        triggered_at=memory.triggered_at,
        restored_at=memory.restored_at,
        factor=memory.factor,
    )


def resume_rule(memory: RuleMemory, at: Micros) -> RuleMemory:
    """One that was in force when an earlier run ended. Triggered at that time, it cools down from
    now on; otherwise its cool-down goes on."""
    triggered, restored = memory.triggered_at, memory.restored_at
    return msgspec.structs.replace(
        memory,
        since=at,
        triggered_at=at if triggered is None else min(triggered, at),
        restored_at=None if restored is None else min(restored, at),
    )


def note_missing(memory: RuleMemory, at: Micros, hold_for: Micros, why: Gap) -> RuleMemory:
    """The counts stay, and what it did stays, for a bounded time; then it starts anew."""
    since = at if memory.missing_since is None else memory.missing_since
    is_told = why.is_lasting or at - since >= _TOLD_AFTER
    missing = why.reason if is_told and not why.is_idle else ""
    if _without_numbers(missing) == _without_numbers(memory.missing):
        missing = memory.missing
    if at - since < hold_for:
        return msgspec.structs.replace(memory, missing_since=since, missing=missing)
    return RuleMemory(
        memory.about,
        factor=memory.factor,
        restored_at=memory.restored_at,
        missing_since=since,
        missing=missing,
    )


def _without_numbers(reason: str) -> str:
    return "".join(each for each in reason if not each.isdigit())
