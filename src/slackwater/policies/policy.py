"""What a policy is, to the tick: a name, its first memory, what it needs, and a decision."""

from collections.abc import Callable
from typing import Any

import msgspec

from slackwater.model.decision import Decision
from slackwater.model.knob import KnobKey
from slackwater.model.needs import Needs
from slackwater.model.snapshot import NodeSnapshot


class Policy(msgspec.Struct, frozen=True):
    """`decide(snapshot, memory, settings)`; settings of None switch the policy off.

    `needs(settings, off)` is what it has to see, given the knobs that cannot be written here.
    Memory and settings are the policy's own types; the tick only keeps and passes them.
    """

    name: str
    first_memory: Any
    needs: Callable[[Any, frozenset[KnobKey]], Needs]
    decide: Callable[[NodeSnapshot, Any, Any], Decision]


class Stateless(msgspec.Struct, frozen=True):
    """The memory of a policy that remembers nothing."""


STATELESS = Stateless()
