"""Who goes together: as many pods at once as those that stay can carry.

Owns the arithmetic of capacity. One pod that nobody can stand in for is the capacity guard's
business; here it is a size of zero. Hot pods go with cold ones: what leaves together comes back
mixed, and that is what spreads load.
"""

import itertools
import math

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.fleet import Cores, Fleet, Member
from slackwater.rebalancer.moves import above, standing
from slackwater.rebalancer.proposal import Candidate, Group, Proposal
from slackwater.settings.rotation import MoveSettings

_PAIR = 2


class Room(msgspec.Struct, frozen=True):
    """`load`: what the carriers use together, and the pods to go. `carriers`: pods that can take
    load over. `most`: what one of them can carry, `because` of what; `bound`: what it should
    carry."""

    load: Cores
    carriers: int
    most: Cores
    bound: Cores
    because: str

    def each(self, away: int) -> Cores:
        """What each of the others carries meanwhile."""
        left = self.carriers - away
        return Cores(self.load / left if left > 0 else math.inf)

    def size(self) -> int:
        """As many as leave the others at or below the bound; a pair or one pod also where the
        others then work hard; 0 where they could not carry it."""
        fits = (away for away in range(self.carriers - 1, 0, -1) if self._within(away, self.bound))
        tight = (away for away in (_PAIR, 1) if self._within(away, self.most))
        return max(next(fits, 0), next(tight, 0))

    def _within(self, away: int, bound: Cores) -> bool:
        return not above(self.each(away), bound)


def room_of(proposal: Proposal, fleet: Fleet, settings: MoveSettings) -> Room:
    """A carrier is Ready, stays for now, and its usage is known over the whole window: of another
    nobody knows what it could take over, so neither its load nor its room is counted."""
    carriers = [each for each in fleet.members if _carries(each, settings)]
    used = [each.usage for each in carriers if not isinstance(each.usage, Gap)]
    ready = {each.name for each in carriers}
    going = [each.usage for each in proposal.rotate if each.name not in ready]
    limits = [each.limit for each in carriers if not isinstance(each.limit, Gap)]
    threshold = proposal.numbers.threshold if proposal.numbers else Cores(0.0)
    most, because = threshold, "the threshold"
    if used and max(used) > threshold:
        most, because = max(used), "what the hottest carries today"
    if limits and len(limits) == len(carriers):
        most, because = min(limits), "their smallest CPU limit"
    load = Cores(math.fsum([*used, *going]))
    return Room(load, len(used), most, min(threshold, most), because)


def _carries(member: Member, settings: MoveSettings) -> bool:
    """Who is held back carries load like any other."""
    free = msgspec.structs.replace(member, held_back="") if member.held_back else member
    return member.ready and standing(free, settings) is Group.REST


def batches_of(
    proposal: Proposal, fleet: Fleet, settings: MoveSettings
) -> tuple[tuple[Candidate, ...], ...]:
    """All to rotate, each once, in order; empty where nobody can go."""
    size = at_once(room_of(proposal, fleet, settings), proposal, settings)
    if size == 0:
        return ()
    order = mixed(proposal.rotate)
    return tuple(order[start : start + size] for start in range(0, len(order), size))


def at_once(room: Room, proposal: Proposal, settings: MoveSettings) -> int:
    """How many of a batch are away together. Pairs are not torn apart where more than one goes."""
    size = room.size() if settings.batch == 0 else min(room.size(), settings.batch)
    if size >= len(proposal.rotate):
        return len(proposal.rotate)
    return size - size % _PAIR if size > _PAIR else size


def mixed(rotate: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The hottest, the coldest, the next hottest ..."""
    hot = [each for each in rotate if each.group is Group.TOP]
    cold = [each for each in rotate if each.group is not Group.TOP]
    pairs = itertools.zip_longest(hot, cold)
    return tuple(each for pair in pairs for each in pair if each is not None)
