"""What an agent holds at one moment of a soak, counted and not weighed: the same in each run."""

import contextlib
import gc
import os
import sys

import msgspec

from slackwater.execution.ledger import FILE
from tests.unit.soak.virtual_node import VirtualNode


class Footprint(msgspec.Struct, frozen=True):
    """Blocks of Python's memory (sys.getallocatedblocks), open descriptors, and what the agent's
    own records hold."""

    blocks: int
    descriptors: int
    ledger_bytes: int
    ledger_entries: int
    journal_ticks: int
    journal_knobs: int


def take_footprint(node: VirtualNode) -> Footprint:
    """After a full collection: what could go is gone."""
    gc.collect()
    journal, ledger = node.built.shared.journal, node.executor.ledger
    return Footprint(
        blocks=sys.getallocatedblocks(),
        descriptors=count_descriptors(),
        ledger_bytes=size_of(f"{node.paths.state}/{FILE}"),
        ledger_entries=len(ledger.entries),
        journal_ticks=len(journal.ticks),
        journal_knobs=len(journal._changed),
    )


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def size_of(path: str) -> int:
    """Zero where it is not there."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.getsize(path)
    return 0
