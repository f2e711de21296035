"""The agent's ties to its cluster, as they are told: what it hears, and how its reports fare."""

from collections.abc import Mapping

import msgspec

from slackwater.model.duration import format_age
from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros

A_WHILE = Micros(15_000_000)


class ClusterLink(msgspec.Struct, frozen=True):
    """`sources` are the kinds of objects that are listened for. `writes` counts attempts to write
    the Node by how they ended; `unwritten` is why the last one failed, and `unsent` why the last
    event did. Events that found no room are `lost`."""

    sources: Mapping[str, Freshness] = {}
    writes: Mapping[str, int] = {}
    unwritten: str = ""
    unsent: str = ""
    lost: int = 0

    def lost_touch(self) -> tuple[str, ...]:
        """The sources that could not be heard for a while: a stream that is cut and opened again
        at once is no news."""
        return tuple(
            name for name, each in self.sources.items() if each.problem and each.age >= A_WHILE
        )

    def remarks(self) -> tuple[str, ...]:
        """One sentence for each thing that is wrong."""
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


#: Without a cluster.
NO_LINK = ClusterLink()
