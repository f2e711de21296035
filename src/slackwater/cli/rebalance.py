"""`slackwater rebalance`: a group that imports a command's module only when that command runs."""

import importlib

import click

#: The module of each command.
_MODULES = {
    "plan": "rebalance_plan",
    "run": "rebalance_run",
    "loop": "rebalance_run",
    "simulate": "rebalance_simulate",
}


class RebalanceGroup(click.Group):
    def list_commands(self, _: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in _MODULES:
            return None
        found = getattr(importlib.import_module(f"slackwater.cli.{_MODULES[name]}"), name)
        return found if isinstance(found, click.Command) else None


@click.group(cls=RebalanceGroup)
def rebalance() -> None:
    """HPA-aware rotation: replaces hot pods together with cold ones.

    The HPA scales by the average and cannot see that two pods do the work of four. Where load
    follows the pods (partitions, connections, sticky sessions), replacing the hottest together
    with the coldest spreads it again.

    \b
    Start with:
      slackwater rebalance plan web -n prod    what would be done, and why
      slackwater rebalance simulate            what it brings, on a day in memory
    """
