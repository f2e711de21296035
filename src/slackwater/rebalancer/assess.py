"""One workload judged, from what was read of it to who goes when.

Owns the order of the reasons: what could not be read, then an opt-out, then what the algorithm
says, then the guards. Reads nothing and changes nothing.
"""

import msgspec

from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.batches import batches_of
from slackwater.rebalancer.fleet import Fleet, WorkloadName
from slackwater.rebalancer.guards import check, opted_out
from slackwater.rebalancer.joining import fleet_of
from slackwater.rebalancer.moves import propose
from slackwater.rebalancer.proposal import Guard, Proposal
from slackwater.rebalancer.seen import NamespaceUsage, Problem, WorkloadSeen
from slackwater.settings.rotation import MoveSettings, RequestSource, WorkloadSettings


def assess(
    seen: WorkloadSeen | Problem,
    usage: NamespaceUsage | Problem,
    name: WorkloadName,
    settings: WorkloadSettings,
    requests: RequestSource,
    now: float,
) -> Assessment:
    """`name` is used where the workload itself could not be read; `now` in seconds since 1970."""
    if isinstance(seen, Problem):
        return Assessment(name, seen.reason, seen.because)
    unwanted = opted_out(seen)
    if isinstance(usage, Problem):
        # Who wants no rotation need not hear what it would take.
        if unwanted.passed:
            return Assessment(seen.workload, usage.reason, usage.because)
        return gated(Assessment(seen.workload, None, ""), unwanted)
    fleet = fleet_of(seen, usage, settings, requests, now)
    proposal = _proposed(seen, fleet, settings.moves)
    decided = (proposal.reason, proposal.because) if unwanted.passed else (None, "")
    found = Assessment(seen.workload, *decided, fleet, proposal)
    for guard in check(proposal, fleet, seen, settings.moves, now):
        found = gated(found, guard)
    if not found.rotates:
        return found
    return msgspec.structs.replace(found, batches=batches_of(proposal, fleet, settings.moves))


def _proposed(seen: WorkloadSeen, fleet: Fleet, settings: MoveSettings) -> Proposal:
    """A fleet knows only that there is no target; the reader knew whether none or several."""
    proposal = propose(fleet, settings)
    if isinstance(seen.aim, Problem):
        return msgspec.structs.replace(proposal, reason=seen.aim.reason, because=seen.aim.because)
    return proposal


def gated(assessment: Assessment, guard: Guard) -> Assessment:
    """With the finding of one more guard. Only the first that forbids gives the reason."""
    guards = (*assessment.guards, guard)
    if guard.passed or not assessment.rotates:
        return msgspec.structs.replace(assessment, guards=guards)
    if guard.reason is None:
        raise ValueError(f"the guard {guard.guard} forbids without a reason")
    return msgspec.structs.replace(
        assessment, guards=guards, reason=guard.reason, because=guard.because, batches=()
    )
