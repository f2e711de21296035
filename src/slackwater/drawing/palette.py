"""The one style sheet: what each kind of thing looks like, for light screens and for dark ones.

Colours are written out, light ones first and dark ones for readers who prefer dark, because simple
renderers know no CSS variables. A kind is a CSS class of one of these tables.
"""

from collections.abc import Iterable, Mapping

import msgspec

_FONTS = '"DejaVu Sans", "Liberation Sans", "Noto Sans", Arial, sans-serif'


class Shade(msgspec.Struct, frozen=True):
    """One colour, on a light and on a dark ground."""

    light: str
    dark: str

    def on(self, *, dark: bool) -> str:
        return self.dark if dark else self.light


class Stroke(msgspec.Struct, frozen=True):
    """A line, and what else its CSS says."""

    shade: Shade
    width: float
    besides: str = ""


_INK, _FAINT = Shade("#1f2933", "#e8edf2"), Shade("#5f6b7a", "#9aa7b5")
_GROUND, _PANEL = Shade("#ffffff", "#11161d"), Shade("#f4f6f9", "#171e27")
_GREEN, _RED = Shade("#1a7f4b", "#4fd08a"), Shade("#b3261e", "#ff7b72")
_AMBER, _VIOLET = Shade("#b26a00", "#e0a040"), Shade("#7a2f8f", "#c98ade")
_ORANGE, _GREY = Shade("#f2b04a", "#e0a040"), Shade("#8b95a1", "#6f7985")
_BLUE, _NAVY = Shade("#2f6db5", "#7db7ea"), Shade("#1f4e8c", "#7db7ea")

#: Of texts: colour, and what else their CSS says.
TEXTS: Mapping[str, tuple[Shade, str]] = {
    "title": (_INK, "font-size: 22px; font-weight: bold"),
    "head": (_INK, "font-weight: bold; font-size: 14px"),
    "sub": (_INK, "font-weight: bold; font-size: 12.5px"),
    "big": (_INK, "font-size: 25px; font-weight: bold"),
    "faint": (_FAINT, "font-size: 12px"),
    "side": (_FAINT, "font-size: 12px; font-style: italic"),
    "good": (_GREEN, ""),
    "fair": (_AMBER, ""),
    "bad": (_RED, ""),
    "badgetext": (_GROUND, "font-size: 11px; font-weight: bold; text-anchor: middle"),
}
#: Of areas.
FILLS: Mapping[str, Shade] = {
    "ground": _GROUND,
    "panel": _PANEL,
    "system": _GREY,
    "guaranteed": Shade("#1f4e8c", "#3f79c4"),
    "burstable": Shade("#5b9bd5", "#7db7ea"),
    "besteffort": _ORANGE,
    "lost": _RED,
    "demoted": _VIOLET,
    "service": Shade("#2f6db5", "#4f8fd6"),
    "hog": _ORANGE,
    "other": Shade("#9aa4b0", "#6f7985"),
    "idle": _PANEL,
    "mean": Shade("#8db8e6", "#2d4f75"),
    "over": Shade("#e58a84", "#8a3a35"),
    "fewer": Shade("#bfe3cd", "#1f4a34"),
    "arrow": _GREEN,
    "badge": _INK,
    "pure": Shade("#dcecf7", "#1d3a52"),
    "program": Shade("#e6f2e4", "#1f3d2a"),
    "edge": Shade("#fdeedb", "#4a3617"),
}
_RULE = Shade("#dde2e9", "#2a333e")
#: Of areas that need one, their edge.
OUTLINES: Mapping[str, Shade] = {
    "idle": Shade("#c3cad3", "#3a4552"),
    "pure": Shade("#3b7ea1", "#7db7ea"),
    "program": Shade("#5a8f52", "#4fd08a"),
    "edge": Shade("#c9812f", "#e0a040"),
}
_ROUND, _LONG, _SHORT = (
    "stroke-linejoin: round",
    "stroke-dasharray: 8 5",
    "stroke-dasharray: 3 4",
)
#: Of lines.
STROKES: Mapping[str, Stroke] = {
    "rule": Stroke(_RULE, 1),
    "quota": Stroke(_RED, 2),
    "allowed": Stroke(_GREEN, 2, _LONG),
    "p50": Stroke(_BLUE, 2, _ROUND),
    "p90": Stroke(_VIOLET, 2.5, _ROUND),
    "hottest": Stroke(_NAVY, 1.8, _ROUND),
    "threshold": Stroke(_RED, 1.8, _LONG),
    "before": Stroke(_AMBER, 2),
    "after": Stroke(_GREEN, 2),
    "part": Stroke(_FAINT, 1, _SHORT),
    "tick": Stroke(_GREEN, 1, _SHORT),
    "event": Stroke(_INK, 1, "stroke-dasharray: 2 3; opacity: .55"),
}


def style_sheet() -> str:
    """Of every page. Where a text stands is no colour, and so is said once."""
    size = f"font-family: {_FONTS}; font-size: 13px"
    return "\n".join(
        [
            f"text {{ {size}; }}",
            ".middle { text-anchor: middle; } .end { text-anchor: end; }",
            *(f".{kind} {{ {more}; }}" for kind, (_, more) in TEXTS.items() if more),
            *(f".{kind} {{ {_pen(stroke)}; }}" for kind, stroke in STROKES.items()),
            *_colours(dark=False),
            "@media (prefers-color-scheme: dark) {",
            *_colours(dark=True),
            "}",
        ]
    )


def _pen(stroke: Stroke) -> str:
    besides = f"; {stroke.besides}" if stroke.besides else ""
    return f"fill: none; stroke-width: {stroke.width:g}{besides}"


def _colours(*, dark: bool) -> Iterable[str]:
    yield f"text {{ fill: {_INK.on(dark=dark)}; }}"
    for kind, (shade, _) in TEXTS.items():
        if shade is not _INK:
            yield f".{kind} {{ fill: {shade.on(dark=dark)}; }}"
    for kind, shade in FILLS.items():
        outline = OUTLINES.get(kind)
        edge = f" stroke: {outline.on(dark=dark)};" if outline else ""
        yield f".{kind} {{ fill: {shade.on(dark=dark)};{edge} }}"
    for kind, stroke in STROKES.items():
        yield f".{kind} {{ stroke: {stroke.shade.on(dark=dark)}; }}"
