"""PodQOS.spec.resourceQOS.memoryQOS: accepted, and without effect."""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane_values import LongNumber, Priority

_IDLE = Meta(description="Accepted, has no effect.")


class MemAsyncReclaim(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    async_ratio: Annotated[LongNumber, _IDLE]
    async_distance_factor: Annotated[LongNumber, _IDLE]


class MemWatermark(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    watermark_ratio: Annotated[LongNumber, _IDLE]


class MemPageCacheLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    page_cache_max_ratio: Annotated[LongNumber, _IDLE]
    page_cache_reclaim_ratio: Annotated[LongNumber, _IDLE]


class Preference(enum.Enum):
    TINY = "Tiny"
    NORMAL = "Normal"
    FILE_ONLY = "FileOnly"
    ANON_ONLY = "AnonOnly"


class Oversold(enum.Enum):
    TRANSPARENT = "Transparent"
    NONE = "None"
    ALLOW = "Allow"


class MemoryCompression(msgspec.Struct, frozen=True, rename="camel"):
    """Accepted, has no effect."""

    enable: Annotated[bool | None, _IDLE] = None
    compression_level: Annotated[Annotated[int, Meta(ge=0, le=4)] | None, _IDLE] = None
    preference: Annotated[Preference, _IDLE] = Preference.TINY
    oversold: Annotated[Oversold, _IDLE] = Oversold.ALLOW


class MemoryQos(msgspec.Struct, frozen=True, rename="camel"):
    """The quality of the pod's memory. Accepted, has no effect."""

    mem_priority: Annotated[
        Priority | None,
        Meta(description="0 is the highest, 7 the lowest. Accepted, has no effect."),
    ] = None
    mem_async_reclaim: MemAsyncReclaim | None = None
    mem_watermark: MemWatermark | None = None
    mem_page_cache_limit: MemPageCacheLimit | None = None
    memory_compression: MemoryCompression | None = None
