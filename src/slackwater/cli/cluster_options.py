"""Flags for the connection to a cluster, shared by every command that talks to an API server."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from slackwater.cli.agent_client import NoAnswer
from slackwater.cli.output import Failed, WrongSettings
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.model.gap import Gap
from slackwater.model.problem import Problem, quoted

if TYPE_CHECKING:
    from slackwater.kube.access import Access
    from slackwater.kube.client import Client

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Where the chart installs the programs.
NAMESPACE = "slackwater-system"
#: A DNS label, and a DNS subdomain (k8s.io/apimachinery/pkg/util/validation).
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_IS_NAMESPACE = re.compile(_LABEL, re.ASCII)
_IS_OBJECT = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*", re.ASCII)


def parse_namespace(_: click.Context, option: click.Parameter, said: str) -> str:
    """A click callback for a namespace."""
    return check_pattern(_IS_NAMESPACE, option, said, f"a DNS label such as {NAMESPACE}")


def parse_object_name(_: click.Context, option: click.Parameter, said: str) -> str:
    """A click callback for the name of an object."""
    return check_pattern(_IS_OBJECT, option, said, "a DNS name such as slackwater-manager")


def check_pattern(pattern: re.Pattern[str], option: click.Parameter, said: str, wanted: str) -> str:
    """Raises WrongSettings unless the value matches."""
    if not pattern.fullmatch(said):
        flag = next((each for each in option.opts if each.startswith("--")), option.opts[0])
        raise WrongSettings(Problem(flag, quoted(said), wanted).sentence())
    return said


def access_options(command: _Command) -> _Command:
    """--kubeconfig and --context, as kubectl has them."""
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        default="",
        envvar="SLACKWATER_KUBECONFIG",
        show_envvar=True,
        help="How to reach the cluster. Default: what KUBECONFIG names, in a pod its own service "
        "account, else ~/.kube/config.",
    )
    context = click.option(
        "--context",
        metavar="NAME",
        default="",
        envvar="SLACKWATER_CONTEXT",
        show_envvar=True,
        help="Which context of the kubeconfig. Default: its current one.",
    )
    return kubeconfig(context(command))


def namespace_option(command: _Command) -> _Command:
    """-n: the namespace of Slackwater's own programs."""
    return click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        default=NAMESPACE,
        show_default=True,
        callback=parse_namespace,
        envvar=["SLACKWATER_NAMESPACE", "POD_NAMESPACE"],
        show_envvar=True,
        help="Where Slackwater is installed.",
    )(command)


def identity_option(command: _Command) -> _Command:
    """--identity: for programs with leader election."""
    return click.option(
        "--identity",
        metavar="NAME",
        default="",
        envvar=["SLACKWATER_IDENTITY", "POD_NAME"],
        show_envvar=True,
        help="Our identity in the Lease, different for each replica. Default: the host's name "
        "and the process id.",
    )(command)


def slo_config_options(command: _Command) -> _Command:
    """--config-namespace and --slo-config-name, as Koordinator's manager has them."""
    default = SloConfigName()
    namespace = click.option(
        "--config-namespace",
        metavar="NAME",
        default=default.namespace,
        show_default=True,
        callback=parse_namespace,
        envvar="SLACKWATER_CONFIG_NAMESPACE",
        show_envvar=True,
        help="The namespace of the ConfigMap with the model of CPU normalization.",
    )
    name = click.option(
        "--slo-config-name",
        metavar="NAME",
        default=default.name,
        show_default=True,
        callback=parse_object_name,
        envvar="SLACKWATER_SLO_CONFIG_NAME",
        show_envvar=True,
        help="The name of that ConfigMap.",
    )
    return namespace(name(command))


def cluster_options(command: _Command) -> _Command:
    """All three."""
    return access_options(namespace_option(command))


def find_cluster_access(kubeconfig: str, context: str) -> "Access":
    """How to reach the API server. Otherwise one sentence: with exit code 2 if the caller named
    something that cannot be used, else with 1."""
    from slackwater.kube.credentials.discovery import find_access

    found = find_access(os.environ, kubeconfig, context)
    if isinstance(found, Gap):
        sentence = _name_origin(found.reason, kubeconfig)
        raise WrongSettings(sentence) if kubeconfig or context else NoAnswer(sentence)
    return found


@contextlib.contextmanager
def asking_cluster(kubeconfig: str, context: str) -> "Iterator[Client]":
    """A client for what is said to every agent; what the cluster answers against it is one
    sentence."""
    from slackwater import __version__
    from slackwater.http.errors import RequestError
    from slackwater.kube.client import Client
    from slackwater.manager.agent_release import NotInstalledError

    client = Client(find_cluster_access(kubeconfig, context), f"slackwater/{__version__}")
    try:
        yield client
    except (NotInstalledError, RequestError) as error:
        raise Failed(str(error)) from None
    finally:
        client.close()


def _name_origin(reason: str, kubeconfig: str) -> str:
    """Adds which flag or variable named the file."""
    command = click.get_current_context(silent=True)
    source = command.get_parameter_source("kubeconfig") if command else None
    if source is ParameterSource.ENVIRONMENT:
        origin = "SLACKWATER_KUBECONFIG"
    else:
        origin = "--kubeconfig" if kubeconfig else "KUBECONFIG"
    files = [kubeconfig] if kubeconfig else os.environ.get(origin, "").split(os.pathsep)
    named = any(file and reason.startswith(file) for file in files)
    return f"{origin}: {reason}" if named else reason
