"""`slackwater explain`: a question to a running agent, its answer into text."""

import datetime as dt

import click

from slackwater.cli.agent_client import agent_options, ask_explanation, find_agent
from slackwater.cli.output import Output, output_options, print_data, wants_colour
from slackwater.model.cgroup import Tier
from slackwater.record.targets import PODS

_TIERS = [tier.value for tier in Tier]


@click.command()
@click.argument("target", default="", metavar="[POD|TIER|node]")
@click.option("--pods", is_flag=True, help="Of a tier: its pods and containers as well.")
@agent_options
@output_options
def explain(
    target: str, pods: bool, agent: str, state: str, output: Output, no_color: bool
) -> None:
    """Why each value is what it is, or why nothing happened.

    POD is a name, namespace/name or a uid; TIER is besteffort, burstable or guaranteed. Without
    a target: everything that the agent changed, and why the rest is as it was.

    \b
    Examples:
      slackwater explain                     everything
      slackwater explain besteffort          one tier
      slackwater explain besteffort --pods   one tier, and all that is in it
      slackwater explain default/web         one pod, and what binds it from above
      slackwater explain -o json | jq '.[] | {target, knob, granted}'

    \b
    Exit codes: 0 explained, 1 no agent answers or there is no such target, 2 wrong usage.
    """
    if pods and target not in _TIERS:
        raise click.UsageError(f"--pods goes with a tier: {', '.join(_TIERS)}")
    rows = ask_explanation(find_agent(agent, state), f"{target}{PODS}" if pods else target)
    if output in (Output.JSON, Output.YAML):
        print_data(rows, output)
        return
    from slackwater.cli.explain_text import explanation_blocks
    from slackwater.cli.printing import print_blocks

    blocks = explanation_blocks(rows, dt.datetime.now(dt.UTC), wide=output is Output.WIDE)
    print_blocks(blocks, wants_colour(no_color))
