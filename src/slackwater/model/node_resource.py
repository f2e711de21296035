"""What a Node object says about its resources, and what is predicted of their use."""

from collections.abc import Mapping

import msgspec

from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.units import Bytes, MilliCpu, Ratio
from slackwater.model.workload import Amounts


class NodeResources(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of the Node object, besides its CPU.

    `extended` are its allocatable extended resources by name, whoever set them. `reserve` is the
    share of "cpu" and "memory" that annotations keep from being sold; one that cannot be read is a
    Gap. `amplified_cpu` is its allocatable CPU as pods may ask for it, where that is amplified;
    a snapshot's `allocatable` is never. `cpu_worth` is what a
    CPU of this machine is worth as pods declare it: the normalization ratio, 1 where there is none.
    """

    memory: Bytes | Gap = NOT_ASKED
    extended: Amounts = {}
    reserve: Mapping[str, Ratio | Gap] = {}
    amplified_cpu: MilliCpu | None = None
    cpu_worth: Ratio | Gap = Ratio(1)


class NodeForecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """The most that is predicted to be used between now and the end of the prediction's window."""

    cpu: MilliCpu | Gap = NOT_ASKED
    memory: Bytes | Gap = NOT_ASKED
