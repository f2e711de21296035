"""The queue of commands: once each, tried again when refused, in flight until the pod is gone.
Taint and condition are written when the Node differs, and not otherwise."""

import random
import threading

import pytest

from slackwater.contract.node_interference import (
    NO_INTERFERENCE,
    NodeInterference,
    SeenInterference,
)
from slackwater.execution.commands import EVICTION_SECONDS, CommandQueue, NobodyCarriesOut
from slackwater.execution.node_states import SETTLE, CommandAttempt
from slackwater.model.decision import Command
from slackwater.model.plan import CommandState
from slackwater.model.units import Micros
from slackwater.model.workload import Workload
from tests.unit.execution.command_desk import (
    SECOND,
    RunnerDesk,
    condition,
    evict,
    pod,
    taint,
)

DONE, QUEUED = CommandState.DONE, CommandState.QUEUED
REFUSED, IMPOSSIBLE = CommandState.REFUSED, CommandState.IMPOSSIBLE
BUDGET = CommandAttempt(REFUSED, "a disruption budget holds it")
LOST = CommandAttempt(QUEUED, "no answer")
TAINTED = NodeInterference("PreferNoSchedule")
BOTH = NodeInterference("PreferNoSchedule", "True")


@pytest.fixture
def desk() -> RunnerDesk:
    return RunnerDesk()


# --- evictions


def test_an_eviction_is_in_flight_until_its_pod_is_gone(desk: RunnerDesk) -> None:
    desk.round(evict(), pods=(pod(),))
    assert (desk.progress().state, desk.progress().since) == (DONE, SECOND)
    assert desk.progress().counts_as_relief()
    desk.round(pods=(pod(terminating=True),))
    assert desk.progress().state is DONE
    desk.round(pods=(pod("another"),))
    assert desk.queue.progress() == ()
    assert desk.evicted == ["uid-job"]
    assert desk.told() == [
        ("evict batch/job", DONE, "", False),
        ("evict batch/job", DONE, "the pod is gone", False),
    ]


def test_the_same_key_is_the_same_eviction(desk: RunnerDesk) -> None:
    for _ in range(3):
        desk.round(evict(), pods=(pod(),))
    assert desk.evicted == ["uid-job"]


def test_an_eviction_that_was_not_sent_is_queued(desk: RunnerDesk) -> None:
    desk.queue.offer((evict(),), Micros(5), (pod(),))
    assert (desk.progress().state, desk.progress().since) == (QUEUED, 5)
    assert desk.progress().counts_as_relief()


def test_a_refused_eviction_is_no_relief_and_is_tried_again_with_back_off(
    desk: RunnerDesk,
) -> None:
    desk.answers = [BUDGET] * 20
    waits, before = [], 0
    for _ in range(5):
        desk.round(evict(), pods=(pod(),), seconds=before / SECOND)
        assert desk.progress().state is REFUSED
        assert not desk.progress().counts_as_relief()
        before = desk.progress().retry_at - desk.now
        waits.append(before / SECOND)
    assert len(desk.evicted) == 5
    for number, wait in enumerate(waits):
        assert 2.0**number <= wait <= 2.0 ** (number + 1)
    assert desk.told() == [("evict batch/job", REFUSED, BUDGET.detail, False)]


def test_a_refused_eviction_waits_as_long_as_the_server_asks(desk: RunnerDesk) -> None:
    desk.answers = [CommandAttempt(REFUSED, "busy", again_after=10.0)]
    desk.round(evict(), pods=(pod(),))
    assert 10 * SECOND < desk.progress().retry_at - desk.now <= 12 * SECOND
    desk.round(pods=(pod(),), seconds=9)
    assert len(desk.evicted) == 1
    desk.round(pods=(pod(),), seconds=4)
    assert len(desk.evicted) == 2
    assert desk.progress().state is DONE


def test_a_lost_answer_is_in_flight_and_looked_up_again(desk: RunnerDesk) -> None:
    desk.answers = [LOST, CommandAttempt(DONE, "the pod is terminating")]
    desk.round(evict(), pods=(pod(),))
    assert desk.progress().state is QUEUED
    assert desk.progress().counts_as_relief()
    desk.round(pods=(pod(),), seconds=3)
    assert desk.progress().state is DONE
    assert [state for _, state, _, _ in desk.told()] == [QUEUED, DONE]


def test_a_pod_that_was_gone_already_is_finished(desk: RunnerDesk) -> None:
    desk.answers = [CommandAttempt(DONE, "it was gone already", gone=True)]
    desk.round(evict(), pods=(pod(),))
    assert desk.queue.progress() == ()
    assert desk.told() == [("evict batch/job", DONE, "it was gone already", False)]


def test_a_pod_that_went_before_it_was_asked_for_is_not_evicted(desk: RunnerDesk) -> None:
    desk.round(evict(), pods=())
    assert desk.evicted == []
    assert desk.queue.progress() == ()


@pytest.mark.parametrize("answer", [CommandAttempt(DONE), BUDGET, LOST])
def test_an_eviction_does_not_count_for_ever(desk: RunnerDesk, answer: CommandAttempt) -> None:
    desk.answers = [answer] * 100
    desk.round(evict(grace_seconds=60), pods=(pod(),))
    desk.round(pods=(pod(),), seconds=EVICTION_SECONDS + 59)
    assert len(desk.queue.progress()) == 1
    desk.queue.outcomes()
    desk.round(pods=(pod(),), seconds=2)
    assert desk.queue.progress() == ()
    [(_, state, detail, _)] = desk.told()
    assert state is REFUSED
    assert "still there after 361 s" in detail


LOCKED: dict[str, tuple[Command, Workload, str]] = {
    "static": (evict(), pod(protected="static"), "the pod is protected: static"),
    "critical": (evict(), pod(protected="critical"), "the pod is protected: critical"),
    "exempt": (evict(), pod(protected="exempt"), "the pod is protected: exempt"),
    "terminating": (evict(), pod(terminating=True), "the pod is terminating already"),
}


@pytest.mark.parametrize("why", LOCKED)
def test_the_queue_never_evicts(desk: RunnerDesk, why: str) -> None:
    command, workload, sentence = LOCKED[why]
    for _ in range(3):
        desk.round(command, pods=(workload,))
    assert desk.evicted == []
    assert (desk.progress().state, desk.progress().detail) == (REFUSED, sentence)
    assert desk.progress().retry_at == 0
    assert desk.told() == [("evict batch/job", REFUSED, sentence, False)]


def test_a_pods_own_word_counts_only_where_the_policy_says_so(desk: RunnerDesk) -> None:
    desk.round(evict(overrules_exemption=True), pods=(pod(protected="exempt"),))
    assert len(desk.evicted) == 1


def test_overruling_an_exemption_overrules_nothing_else(desk: RunnerDesk) -> None:
    desk.round(evict(overrules_exemption=True), pods=(pod(protected="critical"),))
    assert (desk.evicted, desk.progress().state) == ([], REFUSED)


def test_without_a_uid_nothing_is_evicted(desk: RunnerDesk) -> None:
    desk.round(evict(uid=""))
    assert desk.evicted == []
    assert desk.progress().state is REFUSED


def test_a_refused_eviction_can_be_withdrawn_and_a_taken_one_cannot(desk: RunnerDesk) -> None:
    desk.answers = [BUDGET]
    pods = (pod("held"), pod("taken"))
    desk.round(evict("held"), evict("taken"), pods=pods)
    desk.queue.withdraw()
    assert desk.progress().command.uid == "uid-taken"
    desk.round(pods=pods, seconds=100)
    assert desk.evicted == ["uid-held", "uid-taken"]


# --- taint and condition


def test_taint_and_condition_are_written_once_and_removed_when_nobody_asks(
    desk: RunnerDesk,
) -> None:
    for _ in range(3):
        desk.round(taint(), condition())
    assert desk.marked == [BOTH]
    assert desk.queue.progress() == ()
    for _ in range(3):
        desk.round()
    assert desk.marked == [BOTH, NO_INTERFERENCE]
    assert desk.told() == [
        ("taint interference.crane.io", DONE, "", False),
        ("condition interference-identified", DONE, "", False),
        ("taint interference.crane.io", DONE, "", True),
        ("condition interference-identified", DONE, "", True),
    ]


def test_where_the_node_is_as_wanted_nothing_is_written(desk: RunnerDesk) -> None:
    desk.round()
    assert desk.marked == []
    desk.seen = SeenInterference(TAINTED, owns_taint=True)
    desk.round(taint())
    assert desk.marked == []
    assert desk.told() == []


def test_what_an_earlier_run_left_goes_with_the_first_decision_and_not_before(
    desk: RunnerDesk,
) -> None:
    desk.seen = SeenInterference(BOTH, owns_taint=True, owns_condition=True)
    desk.round(decided=False)
    assert desk.marked == []
    desk.round()
    assert desk.marked == [NO_INTERFERENCE]
    assert [(title, undone) for title, _, _, undone in desk.told()] == [
        ("taint interference.crane.io", True),
        ("condition interference-identified", True),
    ]


def test_what_another_program_set_stays(desk: RunnerDesk) -> None:
    desk.seen = SeenInterference(BOTH)
    desk.round()
    assert desk.marked == []


def test_before_all_have_decided_what_is_asked_for_is_added(desk: RunnerDesk) -> None:
    desk.seen = SeenInterference(TAINTED, owns_taint=True)
    desk.round(condition(), decided=False)
    assert desk.marked == [BOTH]


def test_another_effect_replaces_the_taint_and_the_stricter_counts(desk: RunnerDesk) -> None:
    desk.round(taint())
    desk.round(taint("NoSchedule"), taint("PreferNoSchedule"))
    assert [each.effect for each in desk.marked] == ["PreferNoSchedule", "NoSchedule"]


def test_a_taint_that_somebody_removes_comes_back_after_a_while(desk: RunnerDesk) -> None:
    desk.round(taint())
    desk.seen = SeenInterference(owns_taint=True)
    desk.round(taint(), seconds=0.1)
    assert len(desk.marked) == 1
    desk.round(taint(), seconds=SETTLE / SECOND)
    assert len(desk.marked) == 2
    assert len(desk.told()) == 1


def test_a_refused_taint_is_in_progress_and_tried_again(desk: RunnerDesk) -> None:
    desk.answers = [CommandAttempt(REFUSED, "the agent lacks the right")] * 2
    desk.round(taint())
    assert (desk.progress().state, desk.progress().detail) == (REFUSED, "the agent lacks the right")
    assert desk.progress().retry_at > desk.now
    desk.round(taint(), seconds=0.5)
    assert len(desk.marked) == 1
    desk.round(taint(), seconds=2)
    desk.round(taint(), seconds=5)
    assert len(desk.marked) == 3
    assert desk.queue.progress() == ()
    assert [state for _, state, _, _ in desk.told()] == [REFUSED, DONE]


def test_a_removal_that_is_refused_is_told_and_tried_again(desk: RunnerDesk) -> None:
    desk.round(taint())
    desk.queue.outcomes()
    desk.answers = [LOST]
    desk.round()
    assert desk.told() == [("taint interference.crane.io", QUEUED, "no answer", True)]
    desk.round(seconds=3)
    assert desk.told() == [("taint interference.crane.io", DONE, "", True)]


def test_where_nobody_sees_the_node_what_was_written_counts(desk: RunnerDesk) -> None:
    desk.seen = None
    desk.round()
    desk.round()
    for _ in range(3):
        desk.round(taint(), seconds=100)
    assert desk.marked == [NO_INTERFERENCE, TAINTED]


MISFITS = {
    "another taint": (
        taint(target="example.com/x"),
        "may set the taint interference.crane.io only",
    ),
    "an effect that deletes pods": (taint("NoExecute"), "PreferNoSchedule, NoSchedule, not"),
    "another condition": (condition(target="Ready"), "the condition interference-identified only"),
    "a status that is none": (condition("maybe"), "True, False, not 'maybe'"),
}


@pytest.mark.parametrize("what", MISFITS)
def test_what_is_never_set(desk: RunnerDesk, what: str) -> None:
    command, sentence = MISFITS[what]
    for _ in range(2):
        desk.round(command)
    assert desk.marked == []
    assert desk.progress().state is IMPOSSIBLE
    assert sentence in desk.progress().detail
    assert len(desk.told()) == 1
    desk.round()
    assert desk.queue.progress() == ()


def test_a_release_removes_both_and_begins_no_eviction(desk: RunnerDesk) -> None:
    desk.round(taint(), condition())
    desk.queue.offer((taint(), condition(), evict()), desk.now, (pod(),))
    desk.queue.release()
    desk.queue.run_due()
    assert desk.marked == [BOTH, NO_INTERFERENCE]
    assert desk.evicted == []


# --- where nobody can, and the thread


def test_without_an_api_server_commands_are_told_and_nothing_more() -> None:
    queue = CommandQueue(NobodyCarriesOut(), clock=lambda: Micros(0), jitter=random.Random(1))  # noqa: S311
    for _ in range(3):
        queue.offer((taint(), evict()), Micros(0), (pod(),))
        queue.run_due()
    said = "there is no API server; told only"
    assert [(each.state, each.detail) for each in queue.progress()] == [(IMPOSSIBLE, said)] * 2
    assert [each.command.title() for each in queue.outcomes()] == [
        "taint interference.crane.io",
        "evict batch/job",
    ]


class GatedRunner(NobodyCarriesOut):
    """Begins, and ends when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.gate = threading.Event(), threading.Event()
        self.marked: list[NodeInterference] = []

    def evict(self, _command: Command, _pod: Workload | None) -> CommandAttempt:
        self.begun.set()
        assert self.gate.wait()
        return CommandAttempt(DONE)

    def mark_node(self, wanted: NodeInterference, _because: object) -> CommandAttempt:
        self.marked.append(wanted)
        return CommandAttempt(DONE)


def test_the_thread_lets_nobody_wait_and_ends_with_what_a_release_asks_for() -> None:
    runner = GatedRunner()
    queue = CommandQueue(runner, clock=lambda: Micros(1), jitter=random.Random(1))  # noqa: S311
    queue.start()
    queue.offer((taint(), evict()), Micros(1), (pod(),))
    assert runner.begun.wait()
    queue.offer((taint(),), Micros(1), (pod(),))
    queue.release()
    runner.gate.set()
    queue.stop(3600)
    assert runner.marked == [TAINTED, NO_INTERFERENCE]


def test_a_queue_that_never_began_stops_at_once() -> None:
    queue = CommandQueue(NobodyCarriesOut(), clock=lambda: Micros(0), jitter=random.Random(1))  # noqa: S311
    queue.stop(3600)
