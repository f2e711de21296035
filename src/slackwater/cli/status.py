"""`slackwater status`: the whole cluster from its API server, as text and an exit code."""

import datetime as dt
import sys

import click

from slackwater.cli.agent_client import NoAnswer
from slackwater.cli.cluster_options import cluster_options, find_cluster_access
from slackwater.cli.manager import LEASE
from slackwater.cli.output import Output, output_options, print_data, wants_colour


@click.command()
@cluster_options
@output_options
def status(kubeconfig: str, context: str, namespace: str, output: Output, no_color: bool) -> None:
    """The whole cluster: what each node's agent holds, what policies do, what is wrong.

    Asks the API server alone. Problems come first; nodes without any are summed up where there are
    many, and -o wide shows them all.

    \b
    Examples:
      slackwater status                      problems first
      slackwater status -o wide              every node, with its policies
      slackwater status -o json | jq '.nodes[] | select(.problems != [])'

    \b
    Exit codes: 0 all is well, 1 a problem was found or the cluster cannot be reached, 2 wrong
    usage.
    """
    from slackwater import __version__
    from slackwater.http.errors import RequestError
    from slackwater.kube.client import Client
    from slackwater.status.cluster_status import cluster_status
    from slackwater.status.fetch import fetch_facts

    access = find_cluster_access(kubeconfig, context)
    try:
        client = Client(access, f"slackwater-status/{__version__}")
        facts = fetch_facts(client, str(access.server), namespace, LEASE)
    except RequestError as error:
        raise NoAnswer(str(error)) from None
    now = dt.datetime.now(dt.UTC)
    shown = cluster_status(facts, now)
    if output in (Output.JSON, Output.YAML):
        print_data(shown, output)
    else:
        from slackwater.cli.status_text import blocks
        from slackwater.cli.terminal import print_blocks, text_width

        print_blocks(
            blocks(shown, now, text_width(), wide=output is Output.WIDE), wants_colour(no_color)
        )
    sys.exit(1 if shown.has_problem() else 0)
