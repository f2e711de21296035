"""How much the work of protected pods waits for a CPU, by the kernel's pressure files (PSI).

A group that its own quota stops waits as well (kernel/sched/psi.c counts throttled tasks as
waiting), so the throttled time of the same interval, of the pod's group and of its containers', is
taken off: otherwise our own throttling would be its own reason. Percent of the time between two
looks, one series for each pod. Only cgroup v2 has these files.
"""

from collections.abc import Callable, Iterable

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.metric import Sample, Samples
from slackwater.model.units import Micros
from slackwater.model.workload import Workload
from slackwater.observation import kernel_text
from slackwater.observation.cgroups.files import GroupFolders
from slackwater.observation.probes.answers import Answer
from slackwater.observation.probes.pod_labels import pod_labels

_PERCENT = 100.0


class PressureTarget:
    """Reads the groups of the pods that it was last given."""

    def __init__(self, mounts: CgroupMounts, clock: Callable[[], Micros]) -> None:
        cpu = mounts.mount(CgroupController.CPU)
        self._v2 = not isinstance(cpu, Gap) and cpu.version is CgroupVersion.V2
        self._folders = GroupFolders(mounts)
        self._clock = clock
        self._before: dict[str, tuple[Micros, Micros, Micros]] = {}
        #: Replaced as a whole by another thread.
        self.pods: tuple[Workload, ...] = ()

    def ask(self, names: frozenset[str]) -> Answer | Gap:
        if not self._v2:
            return Gap("cgroup v1 does not say how long pods wait for a CPU")
        pods = self.pods
        if not pods:
            return Gap("no pod of this node is selected", is_idle=True)
        earlier, self._before = self._before, {}
        found: list[Sample] = []
        reason = "the pods were read only once so far"
        for pod in pods:
            value = self._percent(pod, earlier)
            if isinstance(value, Gap):
                reason = f"{pod.title()}: {value.reason}"
            elif value is not None:
                found.append(Sample(value, pod_labels(pod)))
        samples: Samples | Gap = tuple(found) or Gap(reason)
        return Answer(self._clock(), dict.fromkeys(names, samples))

    def _percent(
        self, pod: Workload, earlier: dict[str, tuple[Micros, Micros, Micros]]
    ) -> float | Gap | None:
        """None at the first look, and where the counters began anew with a container."""
        counters = self._counters(pod)
        if isinstance(counters, Gap):
            return counters
        self._before[pod.uid] = counters
        if pod.uid not in earlier:
            return None
        at, waited, throttled = (
            now - then for now, then in zip(counters, earlier[pod.uid], strict=True)
        )
        if at <= 0 or waited < 0 or throttled < 0:
            return None
        return min(max(waited - throttled, 0) * _PERCENT / at, _PERCENT)

    def _counters(self, pod: Workload) -> tuple[Micros, Micros, Micros] | Gap:
        """The time of the look, and what waited and was throttled until then."""
        if isinstance(pod.ref, Gap):
            return pod.ref
        (text,) = self._texts(pod.ref, "cpu.pressure")
        waited = text if isinstance(text, Gap) else kernel_text.pressure(text)
        if isinstance(waited, Gap):
            return waited
        throttled = self._throttled((pod.ref, *(each.ref for each in pod.containers)))
        if isinstance(throttled, Gap):
            return throttled
        return self._clock(), waited.some.total, throttled

    def _throttled(self, refs: Iterable[CgroupRef | Gap]) -> Micros | Gap:
        total = 0
        for ref in refs:
            if isinstance(ref, Gap):
                continue  # a container that has ended, or has not begun
            (text,) = self._texts(ref, "cpu.stat")
            times = text if isinstance(text, Gap) else kernel_text.times_v2(text)
            if isinstance(times, Gap):
                return times
            total += times.throttled
        return Micros(total)

    def _texts(self, ref: CgroupRef, *names: str) -> tuple[bytes | Gap, ...]:
        return self._folders.texts(CgroupController.CPU, ref.path, ref.id, names)
