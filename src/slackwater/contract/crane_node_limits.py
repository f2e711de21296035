"""Limits of Crane's NodeQOS that its open source never implemented, nor do we: accepted, so that
no manifest has to be rewritten, and without effect."""

from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane_values import LongNumber, Text

_IDLE = "Accepted, has no effect."


class ElasticNodeCpuLimit(msgspec.Struct, frozen=True):
    """Of all work with elastic CPU together. Accepted, has no effect."""

    percent: Annotated[LongNumber | None, Meta(description=_IDLE)] = None


class ElasticCoreCpuLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Of work with elastic CPU on single CPUs. Accepted, has no effect."""

    core_num: Annotated[Text, Meta(description=_IDLE)] = ""
    percent: Annotated[LongNumber | None, Meta(description=_IDLE)] = None


class ElasticCoreCpuLimitPeriod(msgspec.Struct, frozen=True, rename="camel"):
    """The same at certain times of the day. Accepted, has no effect."""

    offline_cpu_limit: Annotated[
        Text, Meta(description="The time, under an odd name. Accepted, has no effect.")
    ] = ""
    core_num: Annotated[Text, Meta(description=_IDLE)] = ""
    percent: Annotated[LongNumber | None, Meta(description=_IDLE)] = None


class Switch(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    enable: Annotated[bool | None, Meta(description=_IDLE)] = None


class ElasticCpuLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of work with elastic CPU. Accepted, has no effect."""

    elastic_node_cpu_limit: ElasticNodeCpuLimit | None = None
    elastic_core_cpu_limit: Annotated[
        tuple[ElasticCoreCpuLimit, ...], Meta(description=_IDLE, max_length=1024)
    ] = ()
    elastic_core_cpu_limit_period: Annotated[
        tuple[ElasticCoreCpuLimitPeriod, ...], Meta(description=_IDLE, max_length=1024)
    ] = ()
    elastic_cpu_avoidance: Switch | None = None


class MemLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of the page cache. Accepted, has no effect."""

    page_cache_limit_global: Annotated[bool | None, Meta(description=_IDLE)] = None
    page_cache_limit_retry_times: Annotated[LongNumber | None, Meta(description=_IDLE)] = None


class NetLimits(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of the node's network. Accepted, has no effect."""

    rx_bps_min: Annotated[LongNumber, Meta(description=_IDLE)]
    rx_bps_max: Annotated[LongNumber, Meta(description=_IDLE)]
    tx_bps_min: Annotated[LongNumber, Meta(description=_IDLE)]
    tx_bps_max: Annotated[LongNumber, Meta(description=_IDLE)]
