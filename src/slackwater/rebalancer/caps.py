"""How many pods may go in one run, from one node and from one namespace, over all workloads.

Owns how a proposal is cut down: the hottest with the coldest, in pairs, and what is left must still
be worth it by the same rule. Workloads are served in the order in which they are given.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from slackwater.rebalancer.assess import gated
from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.batches import batches_of
from slackwater.rebalancer.fleet import Fleet, WorkloadName
from slackwater.rebalancer.guards import by_number
from slackwater.rebalancer.moves import gain_of, still_hot, verdict, with_gain
from slackwater.rebalancer.proposal import Candidate, Group, Guard, Proposal
from slackwater.rebalancer.reason import Reason
from slackwater.settings.rotation import CapSettings, MoveSettings

_NAME = "caps"
_RUN, _NODE, _NAMESPACE = "run", "node", "namespace"
#: How many go already, by (kind of cap, node or namespace).
_Used = Counter[tuple[str, str]]


def capped(
    assessments: Sequence[Assessment],
    caps: CapSettings,
    settings_of: Callable[[WorkloadName], MoveSettings],
) -> tuple[Assessment, ...]:
    """The same workloads in the same order. Who is not rotated uses nothing up."""
    if not (caps.run or caps.node or caps.namespace):
        return tuple(assessments)
    used: _Used = Counter()
    found: list[Assessment] = []
    for each in assessments:
        if each.proposal is not None and each.fleet is not None and each.rotates:
            settings = settings_of(each.workload)
            each = _cut(each, each.proposal, each.fleet, used, caps, settings)
        if each.proposal is not None and each.rotates:
            used += _needed(each.workload, each.proposal.rotate)
        found.append(each)
    return tuple(found)


def _cut(
    assessment: Assessment,
    proposal: Proposal,
    fleet: Fleet,
    used: _Used,
    caps: CapSettings,
    settings: MoveSettings,
) -> Assessment:
    kept = _kept(assessment.workload, proposal.rotate, used, caps)
    wanted, limits = len(proposal.rotate), _limits(caps)
    if len(kept) == wanted:
        return gated(assessment, Guard(_NAME, True, f"all {wanted} may go: {limits}"))
    smaller = _smaller(proposal, kept, settings)
    text = f"{len(kept)} of {wanted} pods may go: {limits}"
    if smaller.reason is not None:
        text += f"; {smaller.because}" if kept else _alone(assessment, proposal, used, caps)
        return gated(assessment, Guard(_NAME, False, text, Reason.CAPPED))
    again = by_number(smaller, fleet, settings)
    names = {each.guard for each in again}
    guards = (*(each for each in assessment.guards if each.guard not in names), *again)
    return msgspec.structs.replace(
        assessment,
        because=smaller.because,
        proposal=smaller,
        guards=(*guards, Guard(_NAME, True, text)),
        batches=batches_of(smaller, fleet, settings),
    )


def _kept(
    workload: WorkloadName, rotate: tuple[Candidate, ...], used: _Used, caps: CapSettings
) -> tuple[Candidate, ...]:
    """Whole pairs while they fit, then those that never had a partner. In the proposal's order."""
    hot = [each for each in rotate if each.group is Group.TOP]
    cold = [each for each in rotate if each.group is not Group.TOP]
    used, kept = Counter(used), set[str]()
    whole = min(len(hot), len(cold))
    while hot and cold:
        pairs = itertools.product(hot, cold)
        fitting = (pair for pair in pairs if _fits(workload, pair, used, caps))
        pair = next(fitting, None)
        if pair is None:
            break
        used += _needed(workload, pair)
        kept |= {each.name for each in pair}
        hot.remove(pair[0])
        cold.remove(pair[1])
    if len(kept) == 2 * whole:
        for each in (*hot, *cold):
            if _fits(workload, (each,), used, caps):
                used += _needed(workload, (each,))
                kept.add(each.name)
    return tuple(each for each in rotate if each.name in kept)


def _alone(assessment: Assessment, proposal: Proposal, used: _Used, caps: CapSettings) -> str:
    """A remark where a cap has room for one, and yet nobody goes."""
    if not any(_fits(assessment.workload, (each,), used, caps) for each in proposal.rotate):
        return ""
    return "; a hot and a cold pod go together, so one alone is not rotated"


def _smaller(proposal: Proposal, kept: tuple[Candidate, ...], settings: MoveSettings) -> Proposal:
    """What is left, with what it would bring; a reason where that is no longer enough."""
    hot = [each for each in kept if each.group is Group.TOP]
    cold = [each for each in kept if each.group is not Group.TOP]
    if not hot or proposal.numbers is None:
        return msgspec.structs.replace(proposal, rotate=(), reason=Reason.CAPPED)
    gain = gain_of(hot, cold)
    reason, because = verdict(gain, settings)
    because += "" if reason else still_hot(gain, proposal.numbers)
    left_out = {each.name: Group.REST for each in proposal.rotate if each not in kept}
    numbers = with_gain(proposal.numbers, gain)
    return Proposal(kept, reason, because, proposal.groups | left_out, numbers)


def _fits(
    workload: WorkloadName, going: tuple[Candidate, ...], used: _Used, caps: CapSettings
) -> bool:
    most = {_RUN: caps.run, _NODE: caps.node, _NAMESPACE: caps.namespace}
    needed = _needed(workload, going)
    return all(used[key] + needed[key] <= most[key[0]] for key in needed if most[key[0]])


def _needed(workload: WorkloadName, going: tuple[Candidate, ...]) -> _Used:
    needed: _Used = Counter()
    for each in going:
        needed.update(((_RUN, ""), (_NODE, each.node), (_NAMESPACE, workload.namespace)))
    return needed


def _limits(caps: CapSettings) -> str:
    each = ((caps.run, "in a run"), (caps.node, "from a node"), (caps.namespace, "of a namespace"))
    return "at most " + ", ".join(f"{most} {where}" for most, where in each if most)
