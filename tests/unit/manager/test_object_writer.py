"""Statuses are written once, after failures later and later, and never in a war."""

import itertools
from typing import Any, cast

import msgspec
import pytest

from slackwater.contract.crane.fields import EnsuranceStatus
from slackwater.contract.resources import NODES
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.manager.controllers.controller import DesiredWrite, WriteVerb
from slackwater.manager.controllers.policy_status import desire_status, judge_policy
from slackwater.manager.object_writer import FIELD_MANAGER, ObjectWriter, apply_with
from slackwater.model.plan import Result
from slackwater.model.units import Micros
from tests.unit.manager.objects import EARLIER, NOW, WORLD, policy, rule


def seconds(number: float) -> Micros:
    return Micros(int(number * 1_000_000))


def refusal(reason: str, retry_after: float | None = None) -> HttpStatusError:
    return HttpStatusError("PATCH /x", 400, reason, "no", retry_after)


class Server:
    """Takes statuses, or fails as it is told."""

    def __init__(self) -> None:
        self.taken: list[DesiredWrite] = []
        self.fails_with: RequestError | None = None

    def apply(self, wanted: DesiredWrite) -> None:
        if self.fails_with is not None:
            raise self.fails_with
        self.taken.append(wanted)


GOOD, BAD = policy(), policy(rule("nope"))
STATUS = judge_policy(GOOD, WORLD, EARLIER)
WANTED = desire_status(GOOD, STATUS)
OTHER = desire_status(GOOD, msgspec.structs.replace(STATUS, nodes=7))


def test_what_was_written_is_not_written_again_before_it_comes_back() -> None:
    server = Server()
    writer = ObjectWriter(server.apply)
    first = writer.write(WANTED, seconds(0))
    assert first is not None
    assert first.result is Result.APPLIED
    assert writer.write(WANTED, seconds(29)) is None
    later = desire_status(GOOD, judge_policy(GOOD, WORLD, NOW))  # the same but for the time
    assert writer.write(later, seconds(29)) is None
    assert server.taken == [WANTED]


def test_another_status_is_written_at_once() -> None:
    server = Server()
    writer = ObjectWriter(server.apply)
    assert writer.write(WANTED, seconds(0))
    assert writer.write(OTHER, seconds(1))
    assert writer.write(WANTED, seconds(2))
    assert server.taken == [WANTED, OTHER, WANTED]


def test_who_keeps_undoing_is_answered_every_half_minute() -> None:
    server = Server()
    writer = ObjectWriter(server.apply)
    for second in range(120):
        writer.write(WANTED, seconds(second))
        writer.settle(WANTED.key)  # seen for a moment, then undone again
    assert len(server.taken) == 4


def test_failures_are_tried_again_later_and_later() -> None:
    server = Server()
    server.fails_with = refusal("Conflict")
    writer = ObjectWriter(server.apply)
    tries = [at for at in range(2000) if writer.write(WANTED, seconds(at))]
    waits = [after - before for before, after in itertools.pairwise(tries)]
    assert waits[:7] == [2, 4, 8, 16, 32, 64, 128]
    assert set(waits[8:]) == {300}


def test_after_a_failure_even_another_status_waits() -> None:
    server = Server()
    server.fails_with = refusal("Forbidden")
    writer = ObjectWriter(server.apply)
    assert writer.write(WANTED, seconds(0))
    assert writer.write(OTHER, seconds(1)) is None
    assert writer.next_due() == seconds(2)
    server.fails_with = None
    done = writer.write(OTHER, seconds(2))
    assert done is not None
    assert (done.result, done.failures) == (Result.APPLIED, 0)
    assert writer.next_due() is None


def test_a_server_that_says_when_is_believed() -> None:
    server = Server()
    server.fails_with = refusal("TooManyRequests", 60.0)
    writer = ObjectWriter(server.apply)
    attempt = writer.write(WANTED, seconds(0))
    assert attempt is not None
    assert attempt.until == seconds(60)


@pytest.mark.parametrize(
    ("error", "result", "answered"),
    [
        (refusal("NotFound"), Result.VANISHED, True),
        (refusal("Conflict"), Result.REFUSED, True),
        (refusal("Invalid"), Result.REFUSED, True),
        (UnreachableError("nobody answers"), Result.REFUSED, False),
        (RequestError("no credentials"), Result.REFUSED, False),
    ],
)
def test_errors_are_outcomes(error: RequestError, result: Result, answered: bool) -> None:
    server = Server()
    server.fails_with = error
    attempt = ObjectWriter(server.apply).write(WANTED, seconds(0))
    assert attempt is not None
    assert (attempt.result, attempt.answered, attempt.detail) == (result, answered, str(error))


def test_what_is_well_or_gone_is_not_tried_again() -> None:
    server = Server()
    server.fails_with = refusal("Conflict")
    writer = ObjectWriter(server.apply)
    other = desire_status(msgspec.structs.replace(BAD, uid="another"), STATUS)
    assert writer.write(WANTED, seconds(0))
    assert writer.write(other, seconds(0))
    writer.settle(WANTED.key)
    assert writer.next_due() == seconds(2)
    writer.forget_all_but({WANTED.key})
    assert writer.next_due() is None


def test_the_body_is_the_status_of_this_object_alone() -> None:
    asked: list[tuple[Any, ...]] = []

    class Recorder:
        def apply(self, *said: Any, **named: Any) -> bytes:
            asked.append((said, named))
            return b""

    apply_with(cast("Client", Recorder()))(WANTED)
    [((resource, name, body), named)] = asked
    assert (resource, name) == (GOOD.resource, "waterline")
    assert named == {"manager": FIELD_MANAGER, "namespace": "", "subresource": "status"}
    assert set(body) == {"metadata", "status"}
    assert body["metadata"] == {"uid": "uid-of-waterline"}
    assert msgspec.convert(body["status"], EnsuranceStatus) == STATUS


@pytest.mark.parametrize("by", ["", "status"])
def test_annotations_are_a_patch_of_exactly_these_keys(by: str) -> None:
    asked: list[tuple[Any, ...]] = []

    class Recorder:
        def patch(self, *said: Any, **named: Any) -> bytes:
            asked.append((said, named))
            return b""

    body = {"ours": "1.20", "gone": None}
    desired = DesiredWrite(WriteVerb.ANNOTATE, NODES, "n1", body, "x", False, uid="u")
    assert desired.key == "annotations u"
    apply_with(cast("Client", Recorder()), by)(desired)
    [(said, named)] = asked
    assert said == (NODES, "n1", {"metadata": {"uid": "u", "annotations": body}})
    assert named == {"kind": PatchKind.MERGE, "namespace": "", "subresource": by}


def test_a_condition_is_a_strategic_patch_of_the_status() -> None:
    asked: list[tuple[Any, ...]] = []

    class Recorder:
        def patch(self, *said: Any, **named: Any) -> bytes:
            asked.append((said, named))
            return b""

    body = {"type": "NormalizationHeld", "$patch": "delete"}
    desired = DesiredWrite(WriteVerb.CONDITION, NODES, "n1", body, "x", False, uid="u")
    assert desired.key == "condition u"
    apply_with(cast("Client", Recorder()))(desired)
    [(said, named)] = asked
    assert said == (NODES, "n1", {"metadata": {"uid": "u"}, "status": {"conditions": [body]}})
    assert named == {"kind": PatchKind.STRATEGIC, "namespace": "", "subresource": "status"}


def test_a_touch_is_an_empty_patch_of_the_status() -> None:
    asked: list[tuple[Any, ...]] = []

    class Recorder:
        def patch(self, *said: Any, **named: Any) -> bytes:
            asked.append((said, named))
            return b""

    desired = DesiredWrite(WriteVerb.TOUCH, NODES, "n1", {}, "x", False, uid="u")
    apply_with(cast("Client", Recorder()))(desired)
    assert asked == [
        ((NODES, "n1", {}), {"kind": PatchKind.MERGE, "namespace": "", "subresource": "status"})
    ]
