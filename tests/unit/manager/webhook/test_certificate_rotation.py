"""Certificates in a Secret, told to the API server and served, by leaders and followers."""

import base64
import datetime as dt
import json
from typing import Any

import pytest

from slackwater.contract.resources import MUTATING_WEBHOOKS, Resource
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.manager.webhook.certificate_rotation import (
    CertificateRotation,
    decode_secret,
)
from slackwater.manager.webhook.certificates import SERVING_LIFETIME, StoredCertificates
from slackwater.manager.webhook.webhook_names import WEBHOOK

START = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)


class FakeApiServer:
    """One Secret and one configuration."""

    def __init__(self, secret: dict[str, Any] | None = None, *, configured: bool = True) -> None:
        self.secret = secret
        self.configuration: dict[str, Any] = {"webhooks": [{"name": "another"}]}
        if configured:
            self.configuration["webhooks"].append({"name": WEBHOOK, "clientConfig": {}})
        self.fails: RequestError | None = None
        self.changes: list[str] = []

    def get(self, resource: Resource, *_where: str) -> bytes:
        if self.fails is not None:
            raise self.fails
        found = self.configuration if resource is MUTATING_WEBHOOKS else self.secret
        if found is None:
            raise HttpStatusError("GET", 404, "NotFound", "there is none")
        return json.dumps(found).encode()

    def create(self, resource: Resource, body: Any, *_where: str) -> bytes:
        self.changes.append(f"create {resource.kind}")
        self.secret = {"metadata": {"resourceVersion": "1"}, "data": body["data"]}
        return b""

    def patch(self, resource: Resource, _name: str, body: Any, **_how: Any) -> bytes:
        self.changes.append(f"patch {resource.kind}")
        if resource is MUTATING_WEBHOOKS:
            [hook] = body["webhooks"]
            ours = next(
                each for each in self.configuration["webhooks"] if each["name"] == hook["name"]
            )
            ours["clientConfig"] |= hook["clientConfig"]
            return b""
        assert self.secret is not None
        version = self.secret["metadata"]["resourceVersion"]
        assert body["metadata"]["resourceVersion"] == version
        self.secret = {"metadata": {"resourceVersion": version + "1"}, "data": body["data"]}
        return b""

    def trusted(self) -> bytes:
        ours = next(each for each in self.configuration["webhooks"] if each["name"] == WEBHOOK)
        return base64.b64decode(ours["clientConfig"].get("caBundle", ""))

    def close(self) -> None:
        pass


class Replica:
    def __init__(self, server: FakeApiServer, *, leads: bool = True) -> None:
        self.now = START
        self.leading = leads
        self.told: list[str] = []
        self.expires: list[float | None] = []
        self.rotation = CertificateRotation(
            server,  # type: ignore[arg-type]
            "slackwater-system",
            ("slackwater-webhook.slackwater-system.svc",),
            leads=lambda: self.leading,
            loaded=self.expires.append,
            tell=self.told.append,
            clock=lambda: self.now,
        )


def test_the_leader_makes_tells_and_serves_and_then_rests() -> None:
    server = FakeApiServer({"metadata": {"resourceVersion": "7"}})
    leader = Replica(server)
    leader.rotation.look()
    assert server.changes == ["patch Secret", "patch MutatingWebhookConfiguration"]
    assert server.secret is not None
    stored = decode_secret(server.secret["data"])
    assert server.trusted() == stored.authorities
    assert leader.rotation.context() is not None
    assert leader.expires == [(START + SERVING_LIFETIME).timestamp()]
    leader.rotation.look()
    assert len(server.changes) == 2


@pytest.mark.parametrize("text", ["é", "YWJ", "\ud800"])
def test_what_is_no_base64_is_no_certificate(text: str) -> None:
    assert decode_secret({"ca.crt": text, "tls.crt": text}) == StoredCertificates()


def test_without_a_secret_it_is_made() -> None:
    server = FakeApiServer()
    Replica(server).rotation.look()
    assert server.changes[0] == "create Secret"


def test_a_follower_serves_what_the_leader_made_and_writes_nothing() -> None:
    server = FakeApiServer({"metadata": {"resourceVersion": "7"}})
    follower = Replica(server, leads=False)
    follower.rotation.look()
    assert (follower.rotation.context(), server.changes) == (None, [])
    Replica(server).rotation.look()
    follower.rotation.look()
    assert follower.rotation.context() is not None
    assert len(server.changes) == 2


def test_a_renewed_certificate_is_served_without_a_restart() -> None:
    server = FakeApiServer()
    leader, follower = Replica(server), Replica(server, leads=False)
    leader.rotation.look()
    follower.rotation.look()
    before = follower.rotation.context()
    leader.now = START + SERVING_LIFETIME - dt.timedelta(days=1)
    leader.rotation.look()
    follower.rotation.look()
    assert follower.rotation.context() is not before
    assert len(follower.expires) == 2
    assert follower.expires[1] > follower.expires[0]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (UnreachableError("GET /: nobody answers"), "GET /: nobody answers"),
        (HttpStatusError("GET", 403, "Forbidden", "you may not"), "403 Forbidden: you may not"),
    ],
)
def test_what_fails_is_told_once_and_so_is_its_end(fails: RequestError, told: str) -> None:
    server = FakeApiServer()
    leader = Replica(server)
    leader.rotation.look()
    serves = leader.rotation.context()
    leader.told.clear()
    server.fails = fails
    leader.rotation.look()
    leader.rotation.look()
    assert [told in each for each in leader.told] == [True]
    assert leader.rotation.context() is serves
    server.fails = None
    leader.rotation.look()
    assert leader.told[1:] == ["recovered"]


def test_a_configuration_without_the_webhook_is_told() -> None:
    leader = Replica(FakeApiServer(configured=False))
    leader.rotation.look()
    assert leader.told[-1].endswith(f"has no webhook {WEBHOOK}")
    assert leader.rotation.context() is not None


def test_a_secret_that_holds_nonsense_is_replaced_by_the_leader_alone() -> None:
    nonsense = {"tls.crt": "eA==", "tls.key": "!", "ca.crt": "eA=="}
    server = FakeApiServer({"metadata": {"resourceVersion": "7"}, "data": nonsense})
    follower = Replica(server, leads=False)
    follower.rotation.look()
    assert follower.rotation.context() is None
    assert "has no certificate that works" in follower.told[0]
    Replica(server).rotation.look()
    follower.rotation.look()
    assert follower.rotation.context() is not None


def test_its_thread_ends_when_it_is_told() -> None:
    leader = Replica(FakeApiServer())
    leader.rotation.start()
    leader.rotation.stop()
    assert leader.expires
