"""`slackwater manager`: arguments into a program, entries into lines."""

import signal

import click

from slackwater.cli.cluster_options import (
    cluster_options,
    find_cluster_access,
    identity_option,
    parse_object_name,
)
from slackwater.cli.json_lines import writing_entries
from slackwater.cli.listen import listen_address, listen_option
from slackwater.cli.output import Failed

LISTEN = "127.0.0.1:10481"
LEASE = "slackwater-manager"


@click.command()
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
@identity_option
@cluster_options
def manager(
    listen: str | None,
    lease_name: str,
    identity: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """The cluster manager: validates policy objects and explains them in their status.

    Of several replicas one leads and writes; the others watch, and one of them takes over. Prints
    one line of JSON for each effect, and for each kind that it cannot watch.

    \b
    Examples:
      slackwater manager                                  in a pod, with its service account
      slackwater manager --kubeconfig ~/.kube/config      from anywhere
      kubectl get nodeqos                                 what it wrote

    \b
    Exit codes: 0 stopped on request; 1 it cannot run here; 2 wrong usage or settings.
    """
    from slackwater.manager.program import run_manager
    from slackwater.runtime.http_exchange import CannotListenError
    from slackwater.runtime.leadership import Candidate, process_identity
    from slackwater.runtime.wakeup import WakePipe

    address = listen_address(listen, LISTEN)
    candidate = Candidate(namespace, lease_name, identity or process_identity())
    access = find_cluster_access(kubeconfig, context)
    pipe = WakePipe()
    pipe.stop_on(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        with writing_entries() as write:
            run_manager(access, candidate, address, pipe, write)
    except CannotListenError as error:
        raise Failed(str(error)) from None
