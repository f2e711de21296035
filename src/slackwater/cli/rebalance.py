"""`slackwater rebalance`: the group. Its commands are imported when one of them is used."""

import click


class LateGroup(click.Group):
    """The rebalancer's settings are a third of all our settings: nobody else has to load them."""

    def list_commands(self, _: click.Context) -> list[str]:
        return ["plan", "run", "loop", "simulate"]

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        match name:
            case "plan":
                from slackwater.cli.rebalance_plan import plan

                return plan
            case "run":
                from slackwater.cli.rebalance_run import run

                return run
            case "loop":
                from slackwater.cli.rebalance_run import loop

                return loop
            case "simulate":
                from slackwater.cli.rebalance_simulate import simulate

                return simulate
            case _:
                return None


@click.group(cls=LateGroup)
def rebalance() -> None:
    """HPA-aware rotation: pods that run hot, and cold ones with them, are replaced.

    The HPA scales by the average and cannot see that two pods do the work of four. Where load
    follows the pods (partitions, connections, sticky sessions), replacing the hottest together
    with the coldest spreads it again.

    \b
    Start with:
      slackwater rebalance plan web -n prod    what would be done, and why
      slackwater rebalance simulate            what it brings, on a day in memory
    """
