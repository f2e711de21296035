"""Sends a command to a running agent over its endpoint; a failure is a Gap with one sentence."""

import msgspec

from slackwater.agent.endpoint_file import EndpointFile, read_endpoint_file
from slackwater.agent.shared_state import ReleaseDone
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted

#: Longer than the agent waits for its own loop (endpoint.RELEASE_PATIENCE).
_PATIENCE = 30.0
_OK = 200
_LARGEST_ANSWER = 64 << 20


class _Refusal(msgspec.Struct, frozen=True):
    error: str


def ask_release(state: str) -> ReleaseDone | Gap:
    """Everything back, by the agent that holds the ledger in this folder."""
    found = read_endpoint_file(state)
    if found is None:
        return Gap("it has no endpoint to be asked at: stop it first, or start it with --listen")
    body = ask(found, "POST", "/v1/release")
    if isinstance(body, Gap):
        return body
    try:
        return msgspec.json.decode(body, type=ReleaseDone)
    except msgspec.DecodeError as error:
        return Gap(f"what answers at {found.address} is not an agent: {error}")


def ask(found: EndpointFile, method: str, target: str) -> bytes | Gap:
    """The body of the answer; a Gap where there is none, or a refusal."""
    import http.client

    connection = http.client.HTTPConnection(
        found.address.host, found.address.port, timeout=_PATIENCE
    )
    try:
        connection.request(method, target, headers={"Authorization": f"Bearer {found.token}"})
        answer = connection.getresponse()
        status, body = answer.status, answer.read(_LARGEST_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        return Gap(f"it does not answer at {found.address}: {_told(error)}")
    finally:
        connection.close()
    if status == _OK:
        return body
    return Gap(f"it refuses with {status}: {_error_in(body)}")


def _told(error: OSError | Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "no answer"


def _error_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error
    except msgspec.DecodeError:
        return quoted(body[:200].decode("utf-8", "replace"))
