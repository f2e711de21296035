"""`slackwater explain`: a question to a running agent, its answer into text."""

import datetime as dt

import click

from slackwater.cli.agent_client import agent_options, ask_explanation, find_agent
from slackwater.cli.output import Output, output_options, print_data, wants_colour


@click.command()
@click.argument("target", default="", metavar="[POD|TIER|node]")
@agent_options
@output_options
def explain(target: str, agent: str, state: str, output: Output, no_color: bool) -> None:
    """Why each value is what it is, or why nothing happened.

    POD is a name, namespace/name or a uid; TIER is besteffort, burstable or guaranteed. Without
    a target: everything that the agent changed, and why the rest is as it was.

    \b
    Examples:
      slackwater explain                     everything
      slackwater explain besteffort          one tier
      slackwater explain default/web         one pod, and what binds it from above
      slackwater explain -o json | jq '.[] | {target, knob, granted}'

    \b
    Exit codes: 0 explained, 1 no agent answers or there is no such target, 2 wrong usage.
    """
    rows = ask_explanation(find_agent(agent, state), target)
    if output in (Output.JSON, Output.YAML):
        print_data(rows, output)
        return
    from slackwater.cli.explain_text import explanation_blocks
    from slackwater.cli.printing import print_blocks

    blocks = explanation_blocks(rows, dt.datetime.now(dt.UTC), wide=output is Output.WIDE)
    print_blocks(blocks, wants_colour(no_color))
