"""What a policy is, to the tick: a name, its settings, its first memory, and a decision."""

from collections.abc import Callable
from typing import Any

import msgspec

from slackwater.model.decision import Decision
from slackwater.model.snapshot import NodeSnapshot


class Policy(msgspec.Struct, frozen=True):
    """`decide(snapshot, memory, settings)`; settings of None switch the policy off.

    Memory and settings are the policy's own types; the tick only keeps and passes them.
    """

    name: str
    first_memory: Any
    decide: Callable[[NodeSnapshot, Any, Any], Decision]
