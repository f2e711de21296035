"""The sources of metrics that the objects of QoS ensurance describe, as the tick sees them.

What asks them is imported and started with the first such object: an agent without any has neither
its code nor its threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from slackwater.contract.crane.ensurance_set import NO_OBJECTS, EnsuranceObjects
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Samples
from slackwater.model.units import Micros
from slackwater.model.workload import Workload

if TYPE_CHECKING:
    from slackwater.observation.probes.probe_set import ProbeSet
    from slackwater.observation.probes.sources import SourceDescription


class NodePlace(msgspec.Struct, frozen=True):
    """What objects leave to the node: its name, whom a probe without a host asks, and the folder
    with `metrics`, files of series, and `tokens`, files of bearer tokens. Without a folder no file
    is read."""

    name: str = ""
    address: str = "127.0.0.1"
    folder: str = ""


_LOOPBACK = NodePlace()


class ObjectSources:
    """Guards the probes, from the first object that describes one until `stop`."""

    def __init__(
        self,
        period: Micros,
        clock: Callable[[], Micros],
        mounts: CgroupMounts,
        place: NodePlace = _LOOPBACK,
    ) -> None:
        self._period = period
        self._clock = clock
        self._mounts = mounts
        self._place = place
        self._objects = NO_OBJECTS
        self._described: dict[str, SourceDescription] = {}
        self._probes: ProbeSet | None = None

    def update(self, objects: EnsuranceObjects, workloads: tuple[Workload, ...]) -> None:
        """Cheap where both are the same objects as last time."""
        if objects is not self._objects:
            from slackwater.observation.probes.sources import SourcePlaces, describe_sources

            self._objects = objects
            place = self._place
            metrics, tokens = (
                f"{place.folder}/{each}" if place.folder else "" for each in ("metrics", "tokens")
            )
            self._described = describe_sources(objects, SourcePlaces(place.name, metrics, tokens))
        if self._described and self._probes is None:
            from slackwater.observation.probes.probe_set import ProbeContext, ProbeSet

            address = self._place.address
            context = ProbeContext(self._period, self._clock, address, self._mounts)
            self._probes = ProbeSet(context)
            self._probes.start()
        if self._probes is not None:
            self._probes.update(self._described, workloads)

    def samples(self, key: MetricKey, at: Micros) -> Samples | Gap:
        if self._probes is None:
            return Gap(f"there is no {key.source} that could be asked")
        return self._probes.samples(key, at)

    def stop(self) -> None:
        """Does not wait for what is under way."""
        if self._probes is not None:
            self._probes.stop()
