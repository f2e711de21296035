"""PodQOS.spec.resourceQOS.netIOQOS and diskIOQOS: accepted, and without effect."""

from typing import Annotated

import msgspec
from msgspec import Meta, field

from slackwater.contract.crane_values import LongNumber, Text

_IDLE = Meta(description="Accepted, has no effect.")


class NetIoLimits(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    rx_bps: Annotated[LongNumber, _IDLE]
    tx_bps: Annotated[LongNumber, _IDLE]


class WhitelistPorts(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    lports: Annotated[Text, _IDLE]
    rports: Annotated[Text, _IDLE]


class NetIoQos(msgspec.Struct, frozen=True, rename="camel"):
    """The quality of the pod's network. Accepted, has no effect."""

    net_io_priority: Annotated[LongNumber | None, _IDLE] = field(default=None, name="netIOPriority")
    containers_priority: Annotated[
        dict[str, LongNumber], Meta(description=_IDLE.description, max_length=64)
    ] = {}
    net_io_limits: NetIoLimits | None = field(default=None, name="netIOLimits")
    dev_net_io_limits: Annotated[
        dict[str, NetIoLimits], Meta(description=_IDLE.description, max_length=64)
    ] = field(default_factory=dict, name="devNetIOLimits")
    whitelist_ports: WhitelistPorts | None = None


class DiskIoWeight(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    weight: Annotated[LongNumber | None, _IDLE] = None


class DiskIoLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    read_iops: Annotated[LongNumber | None, _IDLE] = field(default=None, name="readIOps")
    write_iops: Annotated[LongNumber | None, _IDLE] = field(default=None, name="writeIOps")
    read_bps: Annotated[LongNumber | None, _IDLE] = None
    write_bps: Annotated[LongNumber | None, _IDLE] = None


class DiskIoQos(msgspec.Struct, frozen=True):
    """The quality of the pod's disks. Accepted, has no effect."""

    weight: DiskIoWeight | None = field(default=None, name="diskIOWeight")
    limit: DiskIoLimit | None = field(default=None, name="diskIOLimit")
