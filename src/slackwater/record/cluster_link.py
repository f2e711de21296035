"""The state of the agent's connection to its cluster: its watches, its writes and its events."""

from collections.abc import Mapping

import msgspec

from slackwater.model.duration import format_age
from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros

TOLERATED_SILENCE = Micros(15_000_000)


class ClusterLink(msgspec.Struct, frozen=True):
    """`sources` are the kinds of objects that are watched. `writes` counts attempts to write the
    Node by their result; `unwritten` is why the last one failed, and `unsent` why the last event
    did. `lost` counts events that were dropped."""

    sources: Mapping[str, Freshness] = {}
    writes: Mapping[str, int] = {}
    unwritten: str = ""
    unsent: str = ""
    lost: int = 0

    def lost_touch(self) -> tuple[str, ...]:
        """The sources that could not be watched for a while: a watch that is cut and resumed at
        once does not count."""
        return tuple(
            name
            for name, each in self.sources.items()
            if each.problem and each.age >= TOLERATED_SILENCE
        )

    def remarks(self) -> tuple[str, ...]:
        """One sentence for each problem."""
        unheard = [
            f"nothing was heard of {name} for {format_age(each.age)}: {each.problem}"
            for name, each in self.sources.items()
            if each.problem
        ]
        told = (
            f"the Node's report cannot be written: {self.unwritten}" if self.unwritten else "",
            f"events cannot be sent: {self.unsent}" if self.unsent else "",
        )
        return (*unheard, *filter(None, told))


#: For an agent without a cluster.
NO_LINK = ClusterLink()
