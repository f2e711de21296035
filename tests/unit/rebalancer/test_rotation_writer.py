"""What goes over the wire, and what each answer of the API server means."""

from collections.abc import Iterator

import msgspec
import pytest

from slackwater.rebalancer.last_rotation import ANNOTATION
from slackwater.rebalancer.rotation import (
    AnnotationOutcome,
    AnnotationResult,
    PodWriter,
    resource_of,
)
from slackwater.rebalancer.rotation import (
    RemovalOutcome as Outcome,
)
from slackwater.settings.rebalancer import Removal
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import ByteServer, Request, Wire
from tests.unit.kube.fake_api import status
from tests.unit.rebalancer.rotating_world import BUDGET, pod
from tests.unit.rebalancer.workloads import NAME, observed, rotated

Answer = tuple[int, dict[str, object]]
DONE: Answer = (201, {"kind": "Status", "status": "Success"})


class Server:
    """Answers each request alike, and keeps it."""

    def __init__(self) -> None:
        self.says: Answer = DONE
        self.server = ByteServer(self._answer)
        self.client = plain_client(self.server.port)
        #: The answer to a GET, where it is another.
        self.shows: Answer | None = None

    def _answer(self, request: Request, wire: Wire) -> None:
        code, body = (request.method == "GET" and self.shows) or self.says
        wire.json(body, code)

    def refuses(self, code: int, reason: str, message: str, *causes: str) -> None:
        self.says = code, status(code, reason, message, *causes)

    def sent(self) -> tuple[str, dict[str, object]]:
        [request] = self.server.requests
        body = msgspec.json.decode(request.body, type=dict[str, object]) if request.body else {}
        return f"{request.method} {request.path}", body

    def writer(self, removal: Removal = Removal.EVICT, grace: int | None = None) -> PodWriter:
        return PodWriter(self.client, removal, grace)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.client.close()
    made.server.close()


@pytest.mark.parametrize(
    ("grace", "options"),
    [
        (None, {"preconditions": {"uid": "uid-A"}}),
        (0, {"preconditions": {"uid": "uid-A"}, "gracePeriodSeconds": 0}),
        (30, {"preconditions": {"uid": "uid-A"}, "gracePeriodSeconds": 30}),
    ],
)
def test_a_pod_is_evicted_by_its_uid(
    server: Server, grace: int | None, options: dict[str, object]
) -> None:
    attempt = server.writer(grace=grace).remove("shop", pod("A"))
    assert (attempt.outcome, attempt.removed, attempt.because) == (Outcome.EVICTED, True, "")
    asked, body = server.sent()
    assert asked == "POST /api/v1/namespaces/shop/pods/A/eviction"
    assert body["deleteOptions"] == options


def test_a_pod_is_deleted_by_its_uid(server: Server) -> None:
    attempt = server.writer(Removal.DELETE, grace=30).remove("shop", pod("A"))
    assert (attempt.outcome, attempt.removed) == (Outcome.DELETED, True)
    assert server.sent() == (
        "DELETE /api/v1/namespaces/shop/pods/A",
        {"preconditions": {"uid": "uid-A"}, "gracePeriodSeconds": 30},
    )


#: As the API server of 1.34 says it, to a deletion and to an eviction (tests/cluster).
OTHER_UID = "Precondition failed: UID in precondition: uid-A, UID in object meta: uid-B"
UID_IN_RECORD = (
    "the UID in the precondition (uid-A) does not match the UID in record (uid-B). The object "
    "might have been deleted and then recreated"
)
FLOW_CONTROL = "too many requests, try later"
TWO_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


@pytest.mark.parametrize(
    ("code", "reason", "message", "fate", "because"),
    [
        (429, "TooManyRequests", BUDGET, Outcome.FAILED, "refused with 429"),  # words alone
        (429, "TooManyRequests", FLOW_CONTROL, Outcome.FAILED, "refused with 429"),
        (404, "NotFound", 'pods "A" not found', Outcome.VANISHED, "it was gone already"),
        (409, "Conflict", "liquid-1 was modified", Outcome.FAILED, "refused with 409"),
        (409, "Conflict", "the object has been modified", Outcome.FAILED, "refused with 409"),
        (500, "InternalError", TWO_BUDGETS, Outcome.FAILED, "more than one PodDisruptionBudget"),
        (403, "Forbidden", "cannot create resource", Outcome.FAILED, "refused with 403 Forbidden"),
        (503, "ServiceUnavailable", "", Outcome.FAILED, "refused with 503"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("removal", Removal)
def test_refusals(
    server: Server,
    removal: Removal,
    code: int,
    reason: str,
    message: str,
    fate: Outcome,
    because: str,
) -> None:
    server.refuses(code, reason, message)
    attempt = server.writer(removal).remove("shop", pod("A"))
    assert (attempt.outcome, attempt.removed) == (fate, False)
    assert because in attempt.because
    assert "\n" not in attempt.because


@pytest.mark.parametrize("words", [BUDGET, "in another language"])
def test_a_budgets_refusal_is_known_by_its_cause(server: Server, words: str) -> None:
    server.refuses(429, "TooManyRequests", words, "Other", "DisruptionBudget")
    attempt = server.writer().remove("shop", pod("A"))
    assert attempt.outcome is Outcome.PDB_BLOCKED
    assert attempt.because == f"a disruption budget holds it: {words}"


@pytest.mark.parametrize("removal", Removal)
@pytest.mark.parametrize(
    ("shown", "fate"),
    [
        ((200, {"metadata": {"name": "A", "uid": "uid-B"}}), Outcome.VANISHED),
        ((404, status(404, "NotFound", "gone")), Outcome.VANISHED),
        ((200, {"metadata": {"name": "A", "uid": "uid-A"}}), Outcome.FAILED),
        ((403, status(403, "Forbidden", "no")), Outcome.FAILED),
        ((200, {}), Outcome.FAILED),
    ],
)
@pytest.mark.parametrize("words", [OTHER_UID, UID_IN_RECORD, "the object has been modified"])
def test_after_a_conflict_the_pod_is_read(
    server: Server, removal: Removal, shown: Answer, fate: Outcome, words: str
) -> None:
    """What the API server says of another uid has no code of its own."""
    server.refuses(409, "Conflict", words)
    server.shows = shown
    attempt = server.writer(removal).remove("shop", pod("A"))
    assert attempt.outcome is fate
    assert server.server.requests[-1].path == "/api/v1/namespaces/shop/pods/A"


def test_nobody_answers(server: Server) -> None:
    """Whether the request arrived is not known."""
    server.server.close()
    attempt = server.writer().remove("shop", pod("A"))
    assert attempt.outcome is Outcome.UNKNOWN
    assert "Connection refused" in attempt.because


def test_a_claim_is_bound_to_what_was_read(server: Server) -> None:
    """With both: somebody else's change, and another workload of that name, are refused."""
    last = rotated()
    assert server.writer().claim(observed(), last) == AnnotationResult(AnnotationOutcome.WRITTEN)
    asked, body = server.sent()
    assert asked == "PATCH /apis/apps/v1/namespaces/shop/deployments/web"
    [request] = server.server.requests
    assert request.header("Content-Type") == "application/merge-patch+json"
    meta = body["metadata"]
    assert isinstance(meta, dict)
    text = meta.pop("annotations")[ANNOTATION]
    assert meta == {"uid": "uid-web", "resourceVersion": "7"}
    stated = {**msgspec.to_builtins(last), "at": "2026-11-17T11:00:00Z"}
    assert msgspec.json.decode(text) == stated


def test_a_later_note_is_bound_to_the_workload_only(server: Server) -> None:
    server.writer().note(observed(), None)
    _, body = server.sent()
    assert body == {"metadata": {"uid": "uid-web", "annotations": {ANNOTATION: None}}}


@pytest.mark.parametrize(
    ("code", "reason", "ended"),
    [
        (409, "Conflict", AnnotationOutcome.CONFLICT),
        (404, "NotFound", AnnotationOutcome.FAILED),
        (403, "Forbidden", AnnotationOutcome.FAILED),
        (422, "Invalid", AnnotationOutcome.FAILED),
        (500, "InternalError", AnnotationOutcome.FAILED),
    ],
)
def test_a_note_that_is_refused(
    server: Server, code: int, reason: str, ended: AnnotationOutcome
) -> None:
    server.refuses(code, reason, "no")
    noted = server.writer().claim(observed(), rotated())
    assert noted.outcome is ended
    assert noted.because.startswith(f"the rotation cannot be noted on {NAME}: PATCH")


def test_a_note_that_nobody_takes(server: Server) -> None:
    server.server.close()
    assert server.writer().note(observed(), rotated()).outcome is AnnotationOutcome.FAILED


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Deployment", "/apis/apps/v1/namespaces/shop/deployments/web"),
        ("StatefulSet", "/apis/apps/v1/namespaces/shop/statefulsets/web"),
        ("ReplicaSet", "/apis/apps/v1/namespaces/shop/replicasets/web"),
    ],
)
def test_where_each_kind_is(kind: str, path: str) -> None:
    workload = msgspec.structs.replace(NAME, kind=kind)
    assert resource_of(observed(workload=workload)).path("shop", "web") == path
