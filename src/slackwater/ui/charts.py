"""Line charts as SVG without a size, a colour or a text of their own: the style sheet has those.

Text inside a picture that shrinks with the screen becomes unreadable, so a chart is lines alone,
and the page writes the numbers beside it.
"""

import itertools
from collections.abc import Sequence

import msgspec
from markupsafe import Markup, escape

#: Of the drawing; the page stretches it.
WIDTH, HEIGHT = 1000, 300


class ChartSeries(msgspec.Struct, frozen=True):
    """A line: its name, its class in the style sheet, and (when, how much); None is a gap."""

    name: str
    style: str
    points: tuple[tuple[float, float | None], ...]

    def is_empty(self) -> bool:
        return all(value is None for _, value in self.points)

    def last(self) -> float | None:
        return next((value for _, value in reversed(self.points) if value is not None), None)


class Chart(msgspec.Struct, frozen=True):
    """`title` is what a reader who cannot see it is told; `top` is the value of the upper edge."""

    title: str
    series: tuple[ChartSeries, ...]
    start: float
    end: float
    top: float

    def draw(self) -> Markup:
        lines = Markup().join(self._line(each) for each in self.series)
        grid = Markup().join(
            Markup('<line class="grid" x1="0" x2="{}" y1="{y}" y2="{y}"/>').format(WIDTH, y=y)
            for y in (0, HEIGHT // 2, HEIGHT)
        )
        return Markup(
            '<svg class="plot" role="img" aria-label="{}" viewBox="0 0 {} {}" '
            'preserveAspectRatio="none">{}{}</svg>'
        ).format(self.title, WIDTH, HEIGHT, grid, lines)

    def _line(self, series: ChartSeries) -> Markup:
        drawn = " ".join(self._commands(series.points))
        return Markup('<path class="line {}" d="{}"/>').format(escape(series.style), drawn)

    def _commands(self, points: Sequence[tuple[float, float | None]]) -> list[str]:
        """A new stroke after each gap; a single point between two gaps is drawn as a dot."""
        found: list[str] = []
        pen_up = True
        for at, value in points:
            if value is None:
                pen_up = True
                continue
            x, y = self._x(at), self._y(value)
            found.append(f"M{x} {y}h1" if pen_up else f"L{x} {y}")
            pen_up = False
        return found

    def _x(self, at: float) -> float:
        span = self.end - self.start
        return round((at - self.start) / span * WIDTH, 1) if span > 0 else 0.0

    def _y(self, value: float) -> float:
        return round(HEIGHT - min(max(value / self.top, 0.0), 1.0) * HEIGHT, 1)


def make_chart(title: str, series: Sequence[ChartSeries], least_top: float = 0.0) -> Chart | None:
    """Scaled so that everything fits, with the upper edge no lower than `least_top`; None where
    there is nothing to draw."""
    shown = tuple(each for each in series if not each.is_empty())
    times = [at for each in shown for at, _ in each.points]
    values = [value for each in shown for _, value in each.points if value is not None]
    if len(times) < 2 or not values:
        return None
    top = max((*values, least_top, 1e-9))
    return Chart(title, shown, min(times), max(times), top)


def thin(
    points: Sequence[tuple[float, float | None]], most: int
) -> tuple[tuple[float, float | None], ...]:
    """At most so many points: the largest of each part, so that no peak is lost."""
    if len(points) <= most:
        return tuple(points)
    edges = [len(points) * k // most for k in range(most + 1)]
    parts = (points[a:b] for a, b in itertools.pairwise(edges))
    return tuple(max(part, key=lambda p: -1.0 if p[1] is None else p[1]) for part in parts)
