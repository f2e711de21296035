"""A queue of batch jobs before a simulated node, and the simplest scheduler: first come, first
placed, where the node offers as much elastic CPU as the job asks for. A job that does not fit yet
keeps no smaller one from going ahead, as in Kubernetes.
"""

from collections.abc import Iterable

import msgspec

from slackwater.model.cgroup import Tier
from slackwater.model.elastic import ELASTIC_CPU
from slackwater.model.units import Micros, MilliCpu
from slackwater.simulation.demand import Steady
from slackwater.simulation.scenario import ScenarioJob, ScenarioPod


class JobCounts(msgspec.Struct, frozen=True):
    """`waited` is the time of all jobs together, placed or not; `most_running` at one time."""

    total: int = 0
    placed: int = 0
    finished: int = 0
    waited: Micros = Micros(0)
    most_running: int = 0


class JobQueue:
    """Guards the jobs that wait and those that run."""

    def __init__(self, jobs: Iterable[ScenarioJob]) -> None:
        self._waiting = sorted(jobs, key=lambda job: (job.arrives, job.name))
        self._running: dict[str, ScenarioJob] = {}
        self._seen_at = Micros(0)
        self.counts = JobCounts(total=len(self._waiting))

    def bought(self) -> MilliCpu:
        """What the jobs that run have bought together."""
        return MilliCpu(sum(job.cpu for job in self._running.values()))

    def count_waiting(self, now: Micros) -> int:
        return sum(job.arrives <= now for job in self._waiting)

    def place(self, now: Micros, offered: MilliCpu, living: frozenset[str]) -> list[ScenarioPod]:
        """The pods that start now. `living` are the names of the node's pods: of a job that is not
        among them any more the CPU is free again."""
        ended = [name for name in self._running if name not in living]
        finished = sum(now >= self._running.pop(name).ends_at for name in ended)
        arrived = [job for job in self._waiting if job.arrives <= now]
        waited = len(arrived) * (now - self._seen_at)
        self._seen_at = now
        free = offered - self.bought()
        placed: list[ScenarioPod] = []
        for job in arrived:
            if job.cpu <= free:
                free -= job.cpu
                self._waiting.remove(job)
                started = msgspec.structs.replace(job, ends_at=Micros(now + job.duration))
                self._running[job.name] = started
                placed.append(_pod_of(started, now))
        before = self.counts
        self.counts = JobCounts(
            before.total,
            before.placed + len(placed),
            before.finished + finished,
            Micros(before.waited + waited),
            max(before.most_running, len(self._running)),
        )
        return placed


def _pod_of(job: ScenarioJob, now: Micros) -> ScenarioPod:
    return ScenarioPod(
        name=job.name,
        tier=Tier.BESTEFFORT,
        demand=Steady(job.cpu),
        starts=now,
        ends=job.ends_at,
        namespace="jobs",
        priority=-10,
        extended={ELASTIC_CPU: job.cpu},
    )
