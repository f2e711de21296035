"""What can go wrong with a request before there is an answer.

    RequestError                  str() is one sentence: what was asked, of whom, what happened
        UnreachableError          no answer of the server: refused, reset, too late, bad TLS, half
                                  an answer, or a page of something in between
            ConnectionDroppedError    the connection ended before a byte of the answer came
        CredentialsError          nothing to authenticate with: no token file, a failed plugin

An answer that is not 2xx is the protocol's to interpret: kube.api_status adds HttpStatusError.
"""


class RequestError(Exception):
    """str() is one sentence."""


class UnreachableError(RequestError):
    """No answer, or not one of the server that was asked."""


class ConnectionDroppedError(UnreachableError):
    """The connection ended before a byte of the answer came."""


class CredentialsError(RequestError):
    """There are no usable credentials."""
