"""`slackwater manager`: arguments into a program, entries into lines."""

import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from slackwater.cli.cluster_options import (
    cluster_options,
    find_cluster_access,
    identity_option,
    parse_object_name,
    slo_config_options,
)
from slackwater.cli.json_lines import writing_entries
from slackwater.cli.listen import listen_address, listen_option
from slackwater.cli.output import Failed, WrongSettings
from slackwater.cli.settings import settings_options, texts_of
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.model.problem import Problem
from slackwater.settings.manager import PROMETHEUS_SETTINGS, ManagerSettings, read_prometheus
from slackwater.settings.setting import StatedText

if TYPE_CHECKING:
    from slackwater.kube.access import Access

    RunManager = Callable[..., None]

_Command = TypeVar("_Command", bound=Callable[..., Any])
LISTEN = "127.0.0.1:10481"
#: What the manager's image has, and no node needs.
_EXTRAS = {
    "numpy": "numpy to predict: install slackwater[forecast]",
    "cryptography": "cryptography for its webhook's certificates: install slackwater[webhook]",
}
LEASE = "slackwater-manager"


def _prometheus_options(command: _Command) -> _Command:
    return settings_options(command, PROMETHEUS_SETTINGS)


def _settings(
    said: Mapping[str, str | None], slo_config: SloConfigName, *, default_template: bool
) -> ManagerSettings:
    rows = {each.key: each for each in PROMETHEUS_SETTINGS}
    texts = {
        key: StatedText(rows[key].flag, text)
        for key, text in texts_of(said, PROMETHEUS_SETTINGS).items()
    }
    problems: list[Problem] = []
    prometheus = read_prometheus(texts, problems)
    if default_template and prometheus is None and not problems:
        problems.append(
            Problem("--prometheus-endpoint", "missing", "there with --default-template")
        )
    if problems:
        raise WrongSettings("\nslackwater: ".join(each.sentence() for each in problems))
    return ManagerSettings(prometheus, default_template, slo_config)


def _import_program(*, webhook: bool) -> "RunManager":
    try:
        if webhook:
            import slackwater.manager.webhook.certificate_rotation  # noqa: F401 - is it there?
        from slackwater.manager.program import run_manager
    except ModuleNotFoundError as missing:
        extra = _EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        raise Failed(f"the manager needs {extra}") from None
    return run_manager


@click.command(short_help="The cluster manager: policies, forecasts, CPU ratios.")
@listen_option("/metrics, /healthz and /readyz", f"Default: {LISTEN}.")
@click.option(
    "--lease-name",
    metavar="NAME",
    default=LEASE,
    show_default=True,
    callback=parse_object_name,
    envvar="SLACKWATER_LEASE_NAME",
    show_envvar=True,
    help="The Lease, in --namespace, that decides which replica leads.",
)
@click.option(
    "--default-template",
    is_flag=True,
    envvar="SLACKWATER_DEFAULT_TEMPLATE",
    show_envvar=True,
    help="Predict the CPU and memory of every node also where the cluster has no ConfigMap "
    "noderesource-tsp-template. Needs --prometheus-endpoint.",
)
@click.option(
    "--webhook-listen",
    metavar="ADDRESS:PORT",
    default="",
    envvar="SLACKWATER_WEBHOOK_LISTEN",
    show_envvar=True,
    help="Where the webhook for writes of a Node's status is served, by HTTPS with certificates of "
    "its own; it amplifies allocatable CPU and memory. Default: it is not served.",
)
@click.option(
    "--release-nodes",
    is_flag=True,
    help="Give every Node its true allocatable back, remove all annotations of CPU normalization, "
    "and exit. For uninstalling: managers that run are stopped before.",
)
@identity_option
@slo_config_options
@_prometheus_options
@cluster_options
def manager(
    listen: str | None,
    lease_name: str,
    identity: str,
    kubeconfig: str,
    context: str,
    namespace: str,
    default_template: bool,
    config_namespace: str,
    slo_config_name: str,
    webhook_listen: str,
    release_nodes: bool,
    **said: str | None,
) -> None:
    """The cluster manager: validates policy objects and explains them in their status, makes a
    prediction for every node from the template, predicts, and annotates Nodes with the worth of
    their CPUs.

    Of several replicas one leads and writes; the others watch, and one of them takes over. Prints
    one line of JSON for each effect, and for each kind that it cannot watch.

    \b
    Examples:
      slackwater manager                                  in a pod, with its service account
      slackwater manager --kubeconfig ~/.kube/config      from anywhere
      slackwater manager --prometheus-endpoint http://prometheus.monitoring:9090
      kubectl get nodeqos,tsp                             what it wrote
      slackwater manager --release-nodes                  before it is uninstalled

    \b
    Exit codes: 0 stopped on request; 1 it cannot run here; 2 wrong usage or settings.
    """
    slo_config = SloConfigName(config_namespace, slo_config_name)
    settings = _settings(said, slo_config, default_template=default_template)
    if release_nodes:
        _release_nodes(find_cluster_access(kubeconfig, context), namespace, lease_name, identity)
        return
    run_manager = _import_program(webhook=bool(webhook_listen))
    from slackwater.runtime.http_exchange import CannotListenError
    from slackwater.runtime.leadership import Candidate, process_identity
    from slackwater.runtime.wakeup import WakePipe

    address = listen_address(listen, LISTEN)
    webhook = listen_address(webhook_listen, "")
    settings = msgspec.structs.replace(settings, webhook=webhook is not None)
    candidate = Candidate(namespace, lease_name, identity or process_identity())
    access = find_cluster_access(kubeconfig, context)
    pipe = WakePipe()
    pipe.stop_on(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        with writing_entries() as write:
            run_manager(access, candidate, address, pipe, write, settings, webhook)
    except CannotListenError as error:
        raise Failed(str(error)) from None


def _release_nodes(access: "Access", namespace: str, lease_name: str, identity: str) -> None:
    from slackwater.http.errors import RequestError
    from slackwater.manager.node_release import release_nodes
    from slackwater.runtime.leadership import Candidate, process_identity

    candidate = Candidate(namespace, lease_name, identity or process_identity())
    with writing_entries() as write:
        try:
            left = release_nodes(access, candidate, write)
        except RequestError as error:
            raise Failed(f"nodes cannot be released: {error}") from None
    if left:
        raise Failed(f"{left} nodes could not be released")
