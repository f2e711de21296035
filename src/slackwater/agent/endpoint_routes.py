"""What the endpoint answers, path by path: values off the board, as text.

Owns the table of paths, and what "healthy" and "ready" mean. Knows no socket: who may ask is
endpoint_door's, and how it is read and sent is endpoint's.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus

import msgspec

from slackwater.agent.board import Board, Condition
from slackwater.agent.board_view import view_of
from slackwater.agent.program import POLICIES
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.record.explanation import explain as explain_target
from slackwater.record.exposition import exposed
from slackwater.record.http_exchange import Answer, refused, told_in_json
from slackwater.record.metrics import Facts
from slackwater.record.overview import overview
from slackwater.record.recording import CONTENT_TYPE, encode

#: A release is one round: a reading and a write for each knob, 10 µs each.
RELEASE_PATIENCE = 20.0
NO_TICK = "there was no tick yet"
#: For a tick that read pods, before an answer is given without.
LOOK_PATIENCE = 2.0
#: Rounds that may be missed before the loop counts as stalled.
_MISSED_ROUNDS = 3
#: For the kubelet to make its tree again, as after a change of its configuration.
LOST_PATIENCE = Micros(30_000_000)


class Asked(msgspec.Struct, frozen=True):
    """One question: `query` has each word's last value, `at` is now, `started` when the endpoint
    began to listen."""

    board: Board
    at: Micros
    started: Micros
    query: Mapping[str, str] = {}
    accept: str = ""


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """`because` is one sentence where it is not ok."""

    ok: bool
    because: str = ""
    problems: tuple[str, ...] = ()
    paused: str = ""
    #: In a cluster: what is wrong with the ties to it. No reason to restart, nor to be unready.
    cluster: tuple[str, ...] = ()


def stalled(condition: Condition, started: Micros, at: Micros) -> str:
    """Why the loop counts as stalled; empty where it does not. Blind rounds count as rounds."""
    settings = condition.settings
    allowed = max(settings.stalled_after, _MISSED_ROUNDS * settings.period)
    age = at - (started if condition.ended is None else condition.ended)
    if age <= allowed:
        return ""
    return f"no round has ended for {_seconds(age)} s; {_seconds(allowed)} s are allowed"


def lost(condition: Condition, at: Micros) -> str:
    """Why an agent without a tree is to be restarted: a start looks for the tree anew, which may
    be another one by now, and adopts what was set. Empty where a restart would not help: while
    objects are waited for; nor would it be right after a release by hand, which it would end."""
    since = condition.lost_since
    if since is None or condition.paused or at - since <= LOST_PATIENCE:
        return ""
    return f"{condition.lost}, for {_seconds(at - since)} s; a restart looks for it anew"


def _seconds(micros: int) -> int:
    return micros // 1_000_000


def healthz(asked: Asked) -> Answer:
    condition = asked.board.condition
    why = stalled(condition, asked.started, asked.at) or lost(condition, asked.at)
    status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
    return told_in_json(status, Health(not why, why, cluster=_ties(asked)))


def _ties(asked: Asked) -> tuple[str, ...]:
    return asked.board.link(asked.at).remarks()


def readyz(asked: Asked) -> Answer:
    """Problems and a pause are told, and are no reason against it: values stand as they should."""
    condition = asked.board.condition
    waits = "" if asked.board.journal.latest else NO_TICK
    why = condition.blind or waits
    status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
    problems = view_of(asked.board, asked.at).troubles()
    health = Health(not why, why, problems, condition.paused, _ties(asked))
    return told_in_json(status, health)


def metrics(asked: Asked) -> Answer:
    condition = asked.board.condition
    facts = Facts(
        at=asked.at,
        counts=asked.board.tally.counts(),
        policies=tuple(policy.name for policy in POLICIES),
        latest=asked.board.journal.latest,
        problems=len(condition.problems),
        blind=bool(condition.blind),
        paused=bool(condition.paused),
        link=asked.board.link(asked.at),
    )
    content_type, body = exposed(facts, asked.accept)
    return Answer(HTTPStatus.OK, content_type, body)


def explain(asked: Asked) -> Answer:
    """Who asks for something by name may mean a pod: those are read while somebody looks."""
    target = asked.query.get("target", "")
    if target:
        asked.board.watch(asked.at)
        asked.board.wait_for_pods(LOOK_PATIENCE)
    rows = explain_target(view_of(asked.board, asked.at), target)
    if isinstance(rows, Gap):
        return refused(HTTPStatus.NOT_FOUND, rows.reason)
    return told_in_json(HTTPStatus.OK, rows)


def top(asked: Asked) -> Answer:
    asked.board.watch(asked.at)
    return told_in_json(HTTPStatus.OK, overview(view_of(asked.board, asked.at)))


def ticks(asked: Asked) -> Answer:
    """What is kept, as a recording."""
    kept = asked.board.journal.ticks
    if not kept:
        return refused(HTTPStatus.SERVICE_UNAVAILABLE, NO_TICK)
    return Answer(HTTPStatus.OK, CONTENT_TYPE, encode(kept))


def release(asked: Asked) -> Answer:
    done = asked.board.ask_release(RELEASE_PATIENCE)
    if done is None:
        return refused(
            HTTPStatus.GATEWAY_TIMEOUT,
            f"no round came within {RELEASE_PATIENCE:.0f} s; the next one will release",
        )
    return told_in_json(HTTPStatus.OK, done)


Route = Callable[[Asked], Answer]
#: Anybody may look.
LOOKS: Mapping[str, Route] = {
    "/metrics": metrics,
    "/healthz": healthz,
    "/readyz": readyz,
    "/v1/explain": explain,
    "/v1/top": top,
    "/v1/ticks": ticks,
}
#: Who has the token may order.
ORDERS: Mapping[str, Route] = {"/v1/release": release}
