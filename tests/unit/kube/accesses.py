"""Ways to a server on loopback, for tests."""

from slackwater.http.endpoint import Identity, Server, Trust
from slackwater.kube.access import Access, Credentials, FixedCredentials
from slackwater.kube.client import Client

AGENT = "slackwater-test/1.0"


def plain_access(port: int, credentials: Credentials | None = None) -> Access:
    return Access(
        Server("127.0.0.1", port, "http"),
        Trust(),
        credentials or FixedCredentials(Identity()),
    )


def plain_client(port: int, credentials: Credentials | None = None, timeout: float = 5.0) -> Client:
    return Client(plain_access(port, credentials), AGENT, timeout)
