"""Which of several replicas acts: the leader of an election, or this one where none is held."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from slackwater.kube.access import Access
from slackwater.kube.client import Client
from slackwater.kube.lease import Election

#: Seconds for a request about the lease: several fit into the lease's deadline.
_REQUEST_SECONDS = 4.0


class Leadership(Protocol):
    """An election as far as a loop needs it."""

    def leads(self) -> bool: ...

    def leader(self) -> str: ...

    def problem(self) -> str: ...


class NoElection:
    """For a dry run, which changes nothing, not even a Lease: there is nothing to agree on."""

    def leads(self) -> bool:
        return True

    def leader(self) -> str:
        return "a dry run"

    def problem(self) -> str:
        return ""


class Candidate(msgspec.Struct, frozen=True):
    """Which Lease decides, and under which name this replica asks for it."""

    namespace: str
    lease: str
    identity: str


def process_identity() -> str:
    """A name that no other replica has."""
    return f"{os.uname().nodename}-{os.getpid()}"


@contextlib.contextmanager
def taking_part(
    access: Access, candidate: Candidate, user_agent: str, changed: Callable[[], None]
) -> Iterator[Leadership]:
    """An election that runs inside the block; after it the Lease is given back."""
    election = Election(
        Client(access, user_agent, timeout=_REQUEST_SECONDS),
        candidate.namespace,
        candidate.lease,
        candidate.identity,
        jitter=random.Random(),  # noqa: S311 - spreads retries, keeps no secret
        changed=changed,
    )
    election.start()
    try:
        yield election
    finally:
        election.stop()
