"""What the API server says when it refuses: metav1.Status, raised as HttpStatusError."""

import msgspec

from slackwater.http.errors import RequestError, retry_after_seconds
from slackwater.model.problem import quoted

#: A server may put a whole page into its message.
_LONGEST_MESSAGE = 1000
_TOO_NEW = "ResourceVersionTooLarge"
#: metav1.StatusReason, for answers that have none.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class HttpStatusError(RequestError):
    """An answer that is not 2xx. `retry_after` is in seconds; `causes` are the reasons in
    `details.causes`, such as DisruptionBudget."""

    def __init__(
        self,
        asked: str,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        said = " ".join(message.split()) or "no reason given"
        super().__init__(f"{asked}: refused with {status} {reason}: {said}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes

    def is_version_too_new(self) -> bool:
        """This server's memory is behind the version that was asked for."""
        return _TOO_NEW in self.causes or "Too large resource version" in self.message


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: int | None = None
    causes: list[_Cause] | None = None


class Status(msgspec.Struct, frozen=True):
    """metav1.Status, as far as we read it."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


def refusal(asked: str, status: int, body: bytes, retry_after: str = "") -> HttpStatusError:
    """The error for an answer that is not 2xx. `retry_after` is the header's text."""
    try:
        told = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        told = Status(message=excerpt(body))
    return refusal_of(asked, told, status, retry_after)


def refusal_of(asked: str, told: Status, status: int = 0, retry_after: str = "") -> HttpStatusError:
    """The same for a decoded Status; a watch has them in events."""
    code = status or told.code or 0
    reason = told.reason or _REASONS.get(code, "Unknown")
    # Servers before 1.17, and watches, say Gone for Expired.
    reason = "Expired" if reason == "Gone" else reason
    details = told.details or _Details()
    waiting = retry_after_seconds(retry_after)
    if waiting is None and details.retry_after_seconds:
        waiting = float(details.retry_after_seconds)
    causes = tuple(each.reason for each in details.causes or ())
    message = (told.message or "")[:_LONGEST_MESSAGE]
    return HttpStatusError(asked, code, reason, message, waiting, causes)


def excerpt(body: bytes) -> str:
    """The beginning of a body that is not from an API server, as one line."""
    return quoted(" ".join(body[:400].decode("utf-8", "replace").split()))
