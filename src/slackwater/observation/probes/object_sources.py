"""The sources of metrics that the objects of QoS ensurance describe, as the tick sees them.

What asks them is imported and started with the first such object: an agent without any has neither
its code nor its threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slackwater.contract.crane.ensurance_set import NO_OBJECTS, EnsuranceObjects
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Samples
from slackwater.model.units import Micros
from slackwater.model.workload import Workload

if TYPE_CHECKING:
    from slackwater.observation.probes.probe_set import ProbeSet
    from slackwater.observation.probes.sources import SourceDescription


class ObjectSources:
    """Guards the probes, from the first object that describes one until `stop`."""

    def __init__(
        self, period: Micros, clock: Callable[[], Micros], mounts: CgroupMounts, node_name: str = ""
    ) -> None:
        self._period = period
        self._clock = clock
        self._mounts = mounts
        self._node_name = node_name
        self._objects = NO_OBJECTS
        self._described: dict[str, SourceDescription] = {}
        self._probes: ProbeSet | None = None

    def update(self, objects: EnsuranceObjects, workloads: tuple[Workload, ...]) -> None:
        """Cheap where both are the same objects as last time."""
        if objects is not self._objects:
            from slackwater.observation.probes.sources import SourcePlaces, describe_sources

            self._objects = objects
            self._described = describe_sources(objects, SourcePlaces(self._node_name))
        if self._described and self._probes is None:
            from slackwater.observation.probes.probe_set import ProbeContext, ProbeSet

            self._probes = ProbeSet(ProbeContext(self._period, self._clock, mounts=self._mounts))
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
