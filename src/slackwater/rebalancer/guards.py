"""What forbids a rotation that would pay: each check answers, also where it lets it pass.

Owns the checks that need no further question to a server. Disruption budgets are the API server's
to say at each eviction; Kafka's lag is a guard of its own module.
"""

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.batches import at_once, room_of
from slackwater.rebalancer.fleet import Fleet, LastRotation, Scaling
from slackwater.rebalancer.last_rotation import removal_of
from slackwater.rebalancer.outcome import began, judged, pause_after
from slackwater.rebalancer.proposal import Guard, Proposal
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.seen import NoAutoscaler, WorkloadSeen
from slackwater.settings.duration import format_duration
from slackwater.settings.rotation import MoveSettings

_MICROS = 1_000_000


def check(
    proposal: Proposal, fleet: Fleet, seen: WorkloadSeen, settings: MoveSettings, now: float
) -> tuple[Guard, ...]:
    """All of them, in the order in which the first that forbids gives the reason."""
    return (
        opted_out(seen),
        hpa_scaling(seen),
        rollout(seen.scaling),
        cooldown(seen.last, fleet, settings, now),
        *by_number(proposal, fleet, settings),
    )


def by_number(proposal: Proposal, fleet: Fleet, settings: MoveSettings) -> tuple[Guard, ...]:
    """Those that depend on how many pods go."""
    return (minimum_pods(proposal, fleet, settings), capacity(proposal, fleet, settings))


def opted_out(seen: WorkloadSeen) -> Guard:
    if seen.opted_out:
        return Guard("opted_out", False, seen.opted_out, Reason.OPTED_OUT)
    return Guard("opted_out", True, "no annotation of the workload forbids it")


def hpa_scaling(seen: WorkloadSeen) -> Guard:
    """Whose replicas are about to change gets other pods, and other loads, anyway."""
    if isinstance(seen.aim, NoAutoscaler):
        return Guard("hpa_scaling", None, "not known: no HPA")
    wanted, there = seen.scaling.desired, seen.scaling.current
    if wanted != there:
        text = f"the HPA scales from {there} to {_pods(wanted)}"
        return Guard("hpa_scaling", False, text, Reason.HPA_SCALING)
    are = "is" if there == 1 else "are"
    return Guard("hpa_scaling", True, f"the HPA wants {_pods(wanted)}, and there {are} {there}")


def rollout(scaling: Scaling) -> Guard:
    if scaling.rollout:
        return Guard("rollout", False, scaling.rollout, Reason.ROLLOUT_IN_PROGRESS)
    return Guard("rollout", True, "no rollout is in flight")


def cooldown(
    last: LastRotation | Gap | None, fleet: Fleet, settings: MoveSettings, now: float
) -> Guard:
    """The rates of less than a window ago are those of the pods that are gone."""
    if last is None:
        return Guard("cooldown", True, "it was not rotated before")
    at = None if isinstance(last, Gap) else began(last)
    if isinstance(last, Gap) or at is None:
        why = last.reason if isinstance(last, Gap) else f"{last.at!r} is no time"
        text = f"the time of the last rotation cannot be read: {why}"
        return Guard("cooldown", False, text, Reason.COOLDOWN)
    known = judged(last, fleet, settings, now) or last
    pause = pause_after(known, settings)
    passed = round((now - at) * _MICROS) >= pause
    text = f"last rotated {_ago(now - at)}, the pause is {format_duration(pause)}"
    if pause != settings.pause:
        text += f" after {known.misses} rotations in a row that brought too little"
    if (at - now) * _MICROS > pause:
        # Clocks do not differ by that much: it would forbid for as long as somebody mistyped.
        text += f"; where that is wrong, remove it: {removal_of(fleet.workload)}"
    return Guard("cooldown", passed, text, None if passed else Reason.COOLDOWN)


def minimum_pods(proposal: Proposal, fleet: Fleet, settings: MoveSettings) -> Guard:
    """As the original counts: all that are to go, although batches wait. Only Ready pods count."""
    ready = sum(each.ready and each.running and not each.terminating for each in fleet.members)
    left, least = ready - len(proposal.rotate), settings.minimum_pods
    if not proposal.rotate:
        are = "is" if ready == 1 else "are"
        return Guard("minimum_pods", True, f"{_pods(ready)} {are} Ready, and none is to go")
    if left < least:
        text = f"deletion would leave {left} pods, minimum required is {least}"
        return Guard("minimum_pods", False, text, Reason.MIN_PODS)
    text = f"{left} of {ready} Ready pods stay, minimum required is {least}"
    return Guard("minimum_pods", True, text)


def capacity(proposal: Proposal, fleet: Fleet, settings: MoveSettings) -> Guard:
    """Whether those that stay can carry the load of at least one that is away."""
    if not proposal.rotate:
        return Guard("capacity", True, "no pod is to go")
    room = room_of(proposal, fleet, settings)
    size = at_once(room, proposal, settings)
    if size == 0:
        left = max(room.carriers - 1, 0)
        text = (
            f"{room.load:.2f} cores on the {_pods(left)} that {'stays' if left == 1 else 'stay'} "
            f"are more than the {room.most:.2f} that each can carry ({room.because})"
        )
        return Guard("capacity", False, text, Reason.CAPACITY_GUARD)
    text = (
        f"with {size} away at once the other {room.carriers - size} carry "
        f"{room.each(size):.2f} cores each, at most {room.most:.2f} ({room.because})"
    )
    return Guard("capacity", True, text)


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _ago(seconds: float) -> str:
    """Clocks that disagree put a rotation into the future; it cools down all the same."""
    span = format_duration(Micros(round(abs(seconds)) * _MICROS))
    return f"{span} ago" if seconds >= 0 else f"{span} ahead of this clock"
