"""A range of numbers as an option's type."""

import math
from typing import Any

import click


class NumberRange(click.FloatRange):
    """Rejects nan, which click lets pass: it is neither below nor above."""

    def convert(
        self,
        value: Any,  # noqa: ANN401
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - click's own signature
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found
