"""Who leads where there is an election, and where there is none."""

import os

from slackwater.runtime.leadership import Leadership, NoElection, process_identity


def test_without_an_election_this_replica_leads() -> None:
    alone: Leadership = NoElection()
    assert (alone.leads(), alone.leader(), alone.problem()) == (True, "a dry run", "")


def test_two_processes_have_two_identities() -> None:
    assert process_identity().endswith(f"-{os.getpid()}")
