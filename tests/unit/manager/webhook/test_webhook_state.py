"""What the webhook counts and tells."""

from http import HTTPStatus

from slackwater.manager.webhook.review import ReviewAnswer, ReviewResult
from slackwater.manager.webhook.webhook_state import DURATION, WebhookState

GOOD = ReviewAnswer(HTTPStatus.OK, b"", ReviewResult.CHANGED, "n1")
BAD = ReviewAnswer(HTTPStatus.OK, b"", ReviewResult.HELD, "n1", "its ratio is bad")


def test_a_problem_is_told_once_for_each_node_and_so_is_its_end() -> None:
    state, told = WebhookState(), []
    for at, answer in enumerate((GOOD, BAD, BAD, GOOD, GOOD)):
        state.count(answer, at, at, lambda about, text: told.append((about, text)))
    assert told == [("webhook: n1", "its ratio is bad"), ("webhook: n1", "recovered")]


def test_a_flood_of_problems_does_not_fill_the_log() -> None:
    state, told = WebhookState(), []
    for number in range(1000):
        answer = ReviewAnswer(HTTPStatus.OK, b"", ReviewResult.REFUSED, f"n{number}", "bad")
        state.count(answer, 10, 10 + number / 1000, lambda *said: told.append(said))
    assert len(told) == 1


def test_readiness_waits_for_a_certificate_where_the_webhook_is_served() -> None:
    state = WebhookState()
    assert state.why_not_ready() == ""
    state.enabled = True
    assert state.why_not_ready() == "the webhook has no certificate yet"
    state.expires = 1.0
    assert state.why_not_ready() == ""


def test_durations_are_a_histogram_and_nothing_is_shown_where_none_is_served() -> None:
    state = WebhookState()
    assert not list(state.families())
    state.enabled = True
    state.count(GOOD, 0.0, 0.003, lambda *_: None)
    [found] = [each for each in state.families() if each.metric is DURATION]
    upto = {each.labels["le"]: each.value for each in found.lines if each.suffix == "_bucket"}
    assert (upto["0.002"], upto["0.005"], upto["+Inf"]) == (0.0, 1.0, 1.0)
