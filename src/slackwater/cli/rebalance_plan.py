"""`slackwater rebalance plan`: what `run` would do, as text or data, and an exit code."""

import os
import sys

import click

from slackwater.cli.cluster_options import access_of
from slackwater.cli.output import Output, output_options, print_data, wants_colour
from slackwater.cli.rebalance_options import rotation_options
from slackwater.cli.rebalance_settings import resolved

#: In columns: pods, groups and usages side by side need as many.
_NARROWEST = 40


@click.command()
@click.argument("workloads", metavar="[WORKLOAD]...", nargs=-1)
@output_options
@rotation_options
def plan(
    workloads: tuple[str, ...],
    output: Output,
    no_color: bool,
    file: str,
    kubeconfig: str,
    context: str,
    **said: str | bool | None,
) -> None:
    """Which pods `run` would rotate now, and why, or why none. Changes nothing.

    WORKLOAD is a name, or a kind and a name such as statefulset/db. Without one it is
    DEPLOYMENT_NAME, or all workloads of --file.

    \b
    Examples:
      slackwater rebalance plan web -n prod
      slackwater rebalance plan web -n prod --tolerance 1.2 --minimum-improvement 5
      slackwater rebalance plan --file workloads.yaml -o wide
      slackwater rebalance plan web -n prod -o json | jq .evict

    \b
    Exit codes: 0 it can be judged, whatever is decided; 1 something has to be mended first, such
    as a missing HPA or a Prometheus that does not answer; 2 wrong usage or settings.
    """
    settings = resolved(workloads, file, said, os.environ)

    from slackwater.cli.rebalance_view import as_data, view_of
    from slackwater.rebalancer.program import plan as survey

    found = survey(access_of(kubeconfig, context), settings)
    views = [view_of(each) for each in found.assessments()]
    if output in (Output.JSON, Output.YAML):
        print_data(as_data(views), output)
    else:
        from slackwater.cli.rebalance_text import blocks
        from slackwater.cli.terminal import print_blocks, text_width

        shown = blocks(views, text_width(_NARROWEST), wide=output is Output.WIDE)
        print_blocks(shown, wants_colour(no_color), _NARROWEST)
    sys.exit(1 if any(each.problem for each in views) else 0)
