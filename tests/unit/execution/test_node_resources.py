"""The queue and the Node's extended resources: written once, repaired, removed."""

import random

import pytest

from slackwater.contract.node_offer import NodeOffer, SeenOffer
from slackwater.execution.commands import CommandQueue, NobodyCarriesOut
from slackwater.execution.node_states import CommandAttempt
from slackwater.model.elastic import ELASTIC_CPU, ELASTIC_MEMORY
from slackwater.model.plan import CommandState
from slackwater.model.units import Micros
from tests.unit.execution.command_desk import RunnerDesk, resource, taint

DONE, REFUSED, IMPOSSIBLE = CommandState.DONE, CommandState.REFUSED, CommandState.IMPOSSIBLE


@pytest.fixture
def desk() -> RunnerDesk:
    return RunnerDesk()


def test_an_offer_is_written_once_and_removed_when_nobody_asks(desk: RunnerDesk) -> None:
    for _ in range(3):
        desk.round(resource("3"))
    assert desk.offered == [NodeOffer({ELASTIC_CPU: 3})]
    assert desk.queue.progress() == ()
    desk.round(resource("2"))
    for _ in range(3):
        desk.round()
    assert desk.offered[1:] == [NodeOffer({ELASTIC_CPU: 2}), NodeOffer()]
    assert desk.told() == [
        (f"node resource {ELASTIC_CPU}", DONE, "", False),
        (f"node resource {ELASTIC_CPU}", DONE, "", False),
        (f"node resource {ELASTIC_CPU}", DONE, "", True),
    ]


def test_it_is_told_what_the_node_had_before(desk: RunnerDesk) -> None:
    """And nothing of a resource that stays as it is."""
    ours = frozenset({ELASTIC_CPU, ELASTIC_MEMORY})
    desk.shown = SeenOffer({ELASTIC_CPU: 3, ELASTIC_MEMORY: 7}, ours)
    desk.round(resource("2"), resource("7", ELASTIC_MEMORY))
    desk.answers = [CommandAttempt(REFUSED, "no right")]
    desk.round(resource("1"), resource("7", ELASTIC_MEMORY))
    desk.round(resource("1"), seconds=60)
    told = [(each.command.target, each.before, each.undone) for each in desk.queue.outcomes()]
    assert told == [
        (ELASTIC_CPU, "3", False),
        (ELASTIC_CPU, "2", False),
        (ELASTIC_CPU, "2", False),
        (ELASTIC_MEMORY, "7", True),
    ]


def test_what_the_kubelet_zeroed_is_written_with_the_next_tick(desk: RunnerDesk) -> None:
    desk.round(resource("3"))
    desk.round(resource("3"), seconds=60)
    desk.shown = SeenOffer({ELASTIC_CPU: 0}, frozenset({ELASTIC_CPU}))
    desk.round(resource("3"))
    assert desk.offered == [NodeOffer({ELASTIC_CPU: 3})] * 2
    assert desk.shown == SeenOffer({ELASTIC_CPU: 3}, frozenset({ELASTIC_CPU}))


def test_a_node_that_shows_the_old_value_for_a_moment_is_not_written_again(
    desk: RunnerDesk,
) -> None:
    desk.round(resource("3"))
    desk.shown = SeenOffer()
    for _ in range(4):
        desk.round(resource("3"))
    assert len(desk.offered) == 1
    desk.round(resource("3"))
    assert len(desk.offered) == 2


def test_a_refusal_is_told_once_and_tried_again(desk: RunnerDesk) -> None:
    desk.answers = [CommandAttempt(REFUSED, "no right")] * 2
    for _ in range(40):
        desk.round(resource("3"))
    assert desk.told()[0] == (f"node resource {ELASTIC_CPU}", REFUSED, "no right", False)
    assert len(desk.told()) == 0
    assert len(desk.offered) == 3


def test_an_earlier_runs_offer_stays_until_everything_is_decided(desk: RunnerDesk) -> None:
    ours = frozenset({ELASTIC_CPU, ELASTIC_MEMORY})
    desk.shown = SeenOffer({ELASTIC_CPU: 3, ELASTIC_MEMORY: 7}, ours)
    desk.round(decided=False)
    assert desk.offered == []
    desk.round(resource("2"), decided=False)
    assert desk.offered == [NodeOffer({ELASTIC_CPU: 2, ELASTIC_MEMORY: 7})]
    desk.round(resource("2"))
    assert desk.offered[-1] == NodeOffer({ELASTIC_CPU: 2})


def test_what_another_program_offers_is_left_alone(desk: RunnerDesk) -> None:
    desk.shown = SeenOffer({ELASTIC_CPU: 3})
    desk.round()
    assert desk.offered == []


@pytest.mark.parametrize(
    ("target", "amount", "said"),
    [
        ("nvidia.com/gpu", "1", "the agent may offer gocrane.io/cpu, "),
        (ELASTIC_CPU, "-1", "an extended resource is a whole number from 0 on, not '-1'"),
        (ELASTIC_CPU, "1.5", "an extended resource is a whole number from 0 on, not '1.5'"),
    ],
)
def test_what_no_agent_may_offer(desk: RunnerDesk, target: str, amount: str, said: str) -> None:
    for _ in range(3):
        desk.round(resource(amount, target))
    assert desk.offered == []
    assert desk.progress().state is IMPOSSIBLE
    [(_, state, detail, _)] = desk.told()
    assert state is IMPOSSIBLE
    assert detail.startswith(said)


def test_taints_and_resources_are_written_apart(desk: RunnerDesk) -> None:
    desk.round(resource("3"), taint())
    desk.round(resource("3"))
    assert len(desk.offered) == 1
    assert len(desk.marked) == 2


def test_release_removes_both(desk: RunnerDesk) -> None:
    desk.round(resource("3"), taint())
    desk.queue.release()
    desk.queue.run_due()
    assert desk.offered[-1] == NodeOffer()
    assert desk.marked[-1].effect == ""


def test_an_agent_without_a_cluster_tells_only() -> None:
    jitter = random.Random(1)  # noqa: S311
    queue = CommandQueue(NobodyCarriesOut(), clock=lambda: Micros(5), jitter=jitter)
    queue.offer((resource("3"),), Micros(5))
    queue.run_due()
    [progress] = queue.progress()
    assert (progress.state, progress.detail) == (
        IMPOSSIBLE,
        "there is no API server; told only",
    )
    queue.release()
    queue.run_due()
    assert queue.progress() == ()
