"""Which rights a user lacks for asking a node's agent, as the API server itself says it."""

import re

import msgspec

from slackwater.contract.resources import Resource
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client

_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
_USER = re.compile(r'User "([^"]*)"')


class Right(msgspec.Struct, frozen=True):
    """One verb on one resource of the core group."""

    verb: str
    resource: str
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{self.subresource and '/'}{self.subresource}"


#: A websocket is a GET; since Kubernetes 1.35 `create` is asked for as well (KEP-4006).
NEEDED = (Right("list", "pods"), Right("get", "pods", "exec"), Right("create", "pods", "exec"))


class _Answer(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Answer = _Answer()


def describe_refusal(client: Client, refused: HttpStatusError, namespace: str) -> str:
    """What a 403 means in that namespace, as a sentence: all that is missing, not only what was
    asked first. Where every right is there, something else refuses, and its own words are best."""
    missing = [right for right in NEEDED if not _is_allowed(client, right, namespace)]
    if not missing:
        return f"{refused}; every right is there, so an admission rule of the cluster refuses it"
    user = _USER.search(refused.message)
    who = f"user {user[1]}" if user else "you"
    what = " and ".join(map(str, missing))
    return (
        f"{who} may not {what} in the namespace {namespace}; whoever administers the cluster can "
        "allow it: docs/reference/remote.md has the Role"
    )


def _is_allowed(client: Client, right: Right, namespace: str) -> bool:
    """Everybody who is authenticated may ask; where it fails nothing is known to be missing."""
    attributes = {
        "verb": right.verb,
        "resource": right.resource,
        "subresource": right.subresource,
        "namespace": namespace,
    }
    body = {
        "apiVersion": _REVIEWS.api_version,
        "kind": _REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    try:
        return msgspec.json.decode(client.create(_REVIEWS, body), type=_Review).status.allowed
    except (RequestError, msgspec.DecodeError):
        return True
