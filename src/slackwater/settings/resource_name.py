"""Settings that name an extended resource, such as kubernetes.io/batch-cpu.

Owns the check: a domain, a slash and a name, by Kubernetes' rules for qualified names
(k8s.io/apimachinery/pkg/util/validation). Refuses a name without a domain: cpu and memory are
the kubelet's own.
"""

import re

import msgspec

from slackwater.model.problem import InvalidError, Problem, quoted

_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DOMAIN = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_LONGEST_DOMAIN = 253


class ResourceName(msgspec.Struct, frozen=True):
    """A setting that is the name of an extended resource."""

    name: str
    default: str
    prose: str

    def span(self) -> str:
        return "a domain, a slash and a name, such as example.com/batch-cpu"


def check_resource_name(setting: ResourceName, value: object, where: str) -> str:
    """The same for files, flags and variables."""
    if isinstance(value, str) and _is_qualified(value):
        return value
    raise InvalidError(Problem(where, quoted(value), setting.span()))


def _is_qualified(value: str) -> bool:
    domain, _, name = value.partition("/")
    if len(domain) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(domain):
        return False
    return _NAME.fullmatch(name) is not None
