"""One workload in one run: what was seen, what was proposed, what the guards said, what follows.

Owns this value: `plan` prints it, `run` acts on it, metrics and events are read off it.
"""

import msgspec

from slackwater.rebalancer.fleet import Fleet, WorkloadName
from slackwater.rebalancer.proposal import Candidate, Guard, Proposal
from slackwater.rebalancer.reason import Reason


class Assessment(msgspec.Struct, frozen=True):
    """`reason` is None where it is to be rotated, else why not; `because` is the sentence in either
    case. `fleet` and `proposal` are None where it could not come so far. `batches`: who goes
    together, in order; empty where nobody goes."""

    workload: WorkloadName
    reason: Reason | None
    because: str
    fleet: Fleet | None = None
    proposal: Proposal | None = None
    guards: tuple[Guard, ...] = ()
    batches: tuple[tuple[Candidate, ...], ...] = ()

    @property
    def rotates(self) -> bool:
        return self.reason is None
