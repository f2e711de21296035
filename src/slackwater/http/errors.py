"""What can go wrong with a request before there is a whole answer.

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
