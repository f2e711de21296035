"""What can go wrong with a request, and how long to wait before another attempt.

    RequestError                      str() is one sentence: what was asked, of whom, what happened
        UnreachableError              no answer of the server: refused, reset, half an answer, or a
                                      page of something in between
            ConnectionDroppedError    the connection ended before a byte of the answer came
            DeadlineExceededError     there was no whole answer in time
            TlsError                  the handshake failed, or the certificate is not trusted
            AnswerTooLargeError       more than the caller is willing to read
        CredentialsError              nothing to authenticate with: no token file, a failed plugin

An answer that is not 2xx is the protocol's to interpret: kube.api_status adds HttpStatusError.
"""

import random


class RequestError(Exception):
    """str() is one sentence."""


class UnreachableError(RequestError):
    """No answer, or not one of the server that was asked. `reason` is the clause without whom."""

    def __init__(self, sentence: str, reason: str = "") -> None:
        super().__init__(sentence)
        self.reason = reason or sentence


class ConnectionDroppedError(UnreachableError):
    """The connection ended before a byte of the answer came."""


class DeadlineExceededError(UnreachableError):
    """There was no whole answer in time."""


class TlsError(UnreachableError):
    """Another attempt would fail in the same way."""


class AnswerTooLargeError(UnreachableError):
    """Another attempt would fail in the same way."""


class CredentialsError(RequestError):
    """There are no usable credentials."""


#: A Retry-After beyond this is a mistake, or a date in disguise.
_LONGEST_ASKED = 300.0


class Backoff:
    """Counts failures in a row."""

    def __init__(self, first: float, longest: float, jitter: random.Random) -> None:
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self._failures = 0

    def after_failure(self, asked: float | None = None) -> float:
        """Seconds. Between half and the whole of first x 2^n: programs that lost the server at
        the same time do not come back at the same time. `asked` is the server's Retry-After:
        never less than that (five minutes at most), and the same spread above it."""
        # The exponent is bounded: 2.0 ** 1024 is an error.
        span = min(self._first * 2.0 ** min(self._failures, 32), self._longest)
        self._failures += 1
        return min(asked or 0.0, _LONGEST_ASKED) + span * (0.5 + self._jitter.random() / 2)

    def reset(self) -> None:
        """After a success; a connection alone is not one."""
        self._failures = 0


def retry_after_seconds(header: str) -> float | None:
    """From a Retry-After header: whole seconds; a date counts as missing."""
    text = header.strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
