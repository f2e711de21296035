"""One round over all workloads: assess them, rotate those that are worth it, and report.

A round is the same in a CronJob, in the resident loop, in a dry run and in a test, which differ in
the dependencies they pass. A failure with one workload is the result of that workload; the others
go on.
"""

from collections.abc import Callable

import msgspec

from slackwater.kube.events import KubeEvent
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import KUBERNETES, AssessedWorkload, Sources, assess_all
from slackwater.rebalancer.last_rotation import record_rotation
from slackwater.rebalancer.observed import LastRotation, ObservedWorkload
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.results import (
    JUDGED,
    RoundResult,
    WorkloadResult,
    after_rotation,
    attempt_entry,
    build_events,
    describe_realised,
    not_rotated,
    planned_entry,
    remark_entry,
    result_entry,
)
from slackwater.rebalancer.rotation import (
    AnnotationOutcome,
    AnnotationResult,
    PodWriter,
    RemovalAttempt,
    RemovalOutcome,
    RotationContext,
    RotationResult,
    RotationStop,
    RotationTask,
    rotate,
)
from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import EntrySink
from slackwater.settings.rebalancer import RunSettings

_MICROS = 1_000_000


class RoundDependencies(msgspec.Struct, frozen=True):
    """`clock` is monotonic, `wall` is the time of day, both in seconds. `writer` is None in a dry
    run, which sends no events either."""

    sources: Sources
    writer: PodWriter | None
    clock: Callable[[], float]
    wall: Callable[[], float]
    wait: Callable[[float], object]
    write: EntrySink
    send_event: Callable[[KubeEvent], None]


class RoundMemory:
    """The number of the round and what was last logged about each workload, so that a loop logs
    changes only."""

    def __init__(self) -> None:
        self.rounds = 0
        self._logged: dict[str, str] = {}

    def has_changed(self, entry: JournalEntry) -> bool:
        """The reason of a decision counts, not its numbers. Removed pods are always logged."""
        return self._differs(entry.what, entry.result) or bool(entry.after)

    def is_new_remark(self, entry: JournalEntry) -> bool:
        return self._differs(f"about {entry.what}", entry.because)

    def _differs(self, key: str, text: str) -> bool:
        before, self._logged[key] = self._logged.get(key), text
        return before != text


def run_once(
    dependencies: RoundDependencies, settings: RunSettings, memory: RoundMemory | None = None
) -> RoundResult:
    """All decisions are made before the first pod is removed."""
    began, now = dependencies.clock(), dependencies.wall()
    memory = memory or RoundMemory()
    memory.rounds += 1
    found = assess_all(dependencies.sources, settings, now)
    one = _Round(dependencies, settings, memory, began)
    for about, sentence in found.remarks:
        one.remark(about, sentence, "")
    results = tuple(one.finish(each) for each in found.workloads)
    errors = {**found.errors}
    if one.errors:
        errors[KUBERNETES] = errors.get(KUBERNETES, 0) + one.errors
    return RoundResult(results, errors, dependencies.clock() - began, dependencies.wall())


class _Round:
    """The second half of a round, after the assessment. `began`: when usage was read."""

    def __init__(
        self,
        dependencies: RoundDependencies,
        settings: RunSettings,
        memory: RoundMemory,
        began: float,
    ) -> None:
        self._dependencies = dependencies
        self._settings = settings
        self._memory = memory
        self._began = began
        self._stuck = ""
        self.errors = 0

    def finish(self, found: AssessedWorkload) -> WorkloadResult:
        writer = self._dependencies.writer
        if writer is not None and found.assessment.judged is not None:
            self._judge(writer, found, found.assessment.judged)
        result = self._result(writer, found)
        for pod in result.pods if writer is None else ():
            planned = planned_entry(found.assessment, pod, self._memory.rounds, self._at())
            self._dependencies.write(planned)
        entry = result_entry(result, self._memory.rounds, self._at())
        if self._memory.has_changed(entry):
            self._dependencies.write(entry)
        if writer is not None and isinstance(found.observed, ObservedWorkload):
            for event in build_events(result, found.observed):
                self._dependencies.send_event(event)
        return result

    def _result(self, writer: PodWriter | None, found: AssessedWorkload) -> WorkloadResult:
        observed = found.observed
        last = None
        if isinstance(observed, ObservedWorkload) and isinstance(observed.last, LastRotation):
            last = observed.last
        if (
            writer is None
            or not found.assessment.rotates
            or not isinstance(observed, ObservedWorkload)
        ):
            return not_rotated(found.assessment, last)
        if because := self._stuck or self._too_late(found):
            left = RotationResult(stop=RotationStop(Reason.STOPPED, because))
            return after_rotation(found.assessment, left, last)
        rotated = self._rotate(writer, found, observed)
        self._note_failures(found, rotated)
        return after_rotation(found.assessment, rotated, last)

    def _too_late(self, found: AssessedWorkload) -> str:
        age = self._dependencies.clock() - self._began
        if age <= found.settings.moves.window / _MICROS:
            return ""
        return f"its numbers are {age:.0f} s old by now; the next round looks again"

    def _note_failures(self, found: AssessedWorkload, rotated: RotationResult) -> None:
        """If new pods of one workload do not become Ready, those of others would not either."""
        name = found.assessment.workload
        if rotated.stop is not None and rotated.stop.reason is Reason.KUBERNETES_ERROR:
            self.errors += 1
        if rotated.stop is not None and rotated.stop.is_stuck:
            self._stuck = f"the new pods of {name} do not come ({rotated.stop.because})"
        for remark in rotated.remarks:
            self.remark(name, remark, RemovalOutcome.FAILED.value)

    def _rotate(
        self, writer: PodWriter, found: AssessedWorkload, observed: ObservedWorkload
    ) -> RotationResult:
        dependencies, assessment = self._dependencies, found.assessment
        claim = None
        if assessment.proposal is not None and assessment.measured is not None:
            # The annotation has whole seconds.
            at = float(int(dependencies.wall()))
            claim = record_rotation(assessment.proposal, assessment.measured, observed.last, at)
        if claim is None:
            raise AssertionError(f"{assessment.workload} is to be rotated without a proposal")

        def report(attempt: RemovalAttempt) -> None:
            dependencies.write(attempt_entry(assessment, attempt, self._memory.rounds, self._at()))

        context = RotationContext(
            look=lambda: dependencies.sources.observe_again(found.settings),
            writer=writer,
            clock=dependencies.clock,
            wait=dependencies.wait,
            halted=dependencies.sources.halted,
            on_attempt=report,
        )
        patience = self._settings.ready_timeout / _MICROS
        return rotate(RotationTask(observed, assessment.batches, claim, patience), context)

    def _judge(self, writer: PodWriter, found: AssessedWorkload, judged: LastRotation) -> None:
        """Writes what the last rotation brought. If that fails, it is judged again next time."""
        if not isinstance(found.observed, ObservedWorkload):
            return
        name = found.assessment.workload
        # If a rotation follows, its claim carries the misses over. A separate write would raise a
        # Deployment's generation, which looks like a rollout before the first batch.
        written = AnnotationResult(AnnotationOutcome.WRITTEN)
        if not found.assessment.rotates:
            written = writer.claim(found.observed, judged)
        if written.outcome is AnnotationOutcome.WRITTEN:
            self.remark(name, describe_realised(judged), JUDGED)
        elif written.outcome is AnnotationOutcome.FAILED:
            self.errors += 1
            self.remark(name, written.because, RemovalOutcome.FAILED.value)

    def remark(self, about: object, sentence: str, result: str) -> None:
        """Logged once, until there is a different remark about the same thing."""
        entry = remark_entry(about, sentence, result, self._memory.rounds, self._at())
        if self._memory.is_new_remark(entry):
            self._dependencies.write(entry)

    def _at(self) -> Micros:
        return Micros(round(self._dependencies.clock() * _MICROS))
