"""A picture as PNG, where the package for it is installed."""

import os

from slackwater.model.gap import Gap

#: Twice the SVG's size: sharp on the screens of today.
_ZOOM = 2
_FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts")
_FONTS = (".ttf", ".otf", ".ttc")
NO_RENDERER = Gap(
    "the package resvg-py is not installed (pip install '.[demo]' in Slackwater's source)"
)
NO_FONT = Gap("this machine has no fonts to draw text with")


def render_png(svg: str, font_folders: tuple[str, ...] = _FONT_FOLDERS) -> bytes | Gap:
    """By resvg-py, if it is installed: one wheel of 3 MB without dependencies. It leaves out text
    where there is no font, so then there is no PNG rather than one without words."""
    try:
        import resvg_py
    except ImportError:
        return NO_RENDERER
    if not any(_has_font(os.path.expanduser(folder)) for folder in font_folders):
        return NO_FONT
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=_ZOOM))


def _has_font(folder: str) -> bool:
    return any(name.endswith(_FONTS) for _, _, files in os.walk(folder) for name in files)
