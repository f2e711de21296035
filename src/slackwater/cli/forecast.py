"""`slackwater forecast`: a group that imports a command's module only when that command runs.

The commands need numpy, which is an extra; the group's help does not.
"""

import importlib

import click

from slackwater.cli.output import Failed

#: The module of each command.
_MODULES = {"backtest": "forecast_backtest", "show": "forecast_show"}


class ForecastGroup(click.Group):
    def list_commands(self, _: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in _MODULES:
            return None
        try:
            module = importlib.import_module(f"slackwater.cli.{_MODULES[name]}")
        except ModuleNotFoundError as error:
            if error.name != "numpy":
                raise
            raise Failed(
                "forecasts need the package numpy: pip install '.[forecast]' in Slackwater's source"
            ) from None
        found = getattr(module, name)
        return found if isinstance(found, click.Command) else None


@click.group(cls=ForecastGroup, short_help="Forecasts of CPU usage, tried on the past or shown.")
def forecast() -> None:
    """Forecasts of CPU usage: how good they would have been, and what is predicted of a node.

    Idle CPU that is sold must stay idle until the next forecast. Before you trust one, try it on
    your own past.

    \b
    Start with:
      slackwater forecast backtest usage.csv   each estimator on this series, side by side
      slackwater forecast show NODE            history, forecast, what is sold, why
    """
