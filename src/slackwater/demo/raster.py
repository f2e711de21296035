"""The picture as PNG: by resvg, where its package and a font are installed.

Owns the choice of the renderer. resvg-py is one wheel of 3 MB without dependencies; the next
smallest, Pillow, is seven times that and would need a drawing of its own. A renderer without a font
leaves all text out, so then there is no PNG rather than one without words.
"""

import os

from slackwater.model.gap import Gap

#: Twice the SVG's size: sharp on the screens of today.
_ZOOM = 2
_FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts")
_FONTS = (".ttf", ".otf", ".ttc")
NO_RENDERER = Gap("the package resvg-py is not installed (pip install 'slackwater[demo]')")
NO_FONT = Gap("this machine has no fonts to draw text with")


def rendered(svg: str, font_folders: tuple[str, ...] = _FONT_FOLDERS) -> bytes | Gap:
    try:
        import resvg_py
    except ImportError:
        return NO_RENDERER
    if not any(_has_font(os.path.expanduser(folder)) for folder in font_folders):
        return NO_FONT
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=_ZOOM))


def _has_font(folder: str) -> bool:
    return any(name.endswith(_FONTS) for _, _, files in os.walk(folder) for name in files)
