"""Turns a view into HTML: a whole page, or its middle alone for a page that is open already.

Templates escape everything: whatever comes from a cluster or an agent is somebody else's text.
"""

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from slackwater import __version__
from slackwater.record.offers import describe_budget, describe_unreclaimable
from slackwater.record.rules import describe_comparison, describe_counts
from slackwater.record.timestamps import describe_age, time_of_day
from slackwater.ui.amounts import (
    format_cores,
    format_milli,
    format_percent,
    format_resource,
    share,
)

FOLDER = Path(__file__).parent
#: With this header a page that is open already asks for its middle alone. A page of another origin
#: cannot set it.
FRAGMENT = "x-slackwater-fragment"
_NOT_MODIFIED = 304


class NavigationItem(msgspec.Struct, frozen=True):
    """A link of the page's head; `path` is below the first page."""

    name: str
    path: str


class View(msgspec.Struct, frozen=True):
    """What a page shows. `live` is how often an open page asks for it again, in seconds; 0 never.
    `part` is the link of the navigation that it belongs to."""

    template: str
    title: str
    part: str
    values: Mapping[str, Any]
    live: float = 0
    status: int = 200
    #: The same for two views that look the same; empty where nobody knows.
    key: str = ""


class RenderedMiddle(msgspec.Struct, frozen=True):
    """The middle of a page as an open page gets it, and the tag by which it knows it again."""

    key: str
    html: Markup
    tag: str


class Pages:
    """Guards the templates."""

    def __init__(self, about: str, navigation: tuple[NavigationItem, ...]) -> None:
        self._last: dict[str, RenderedMiddle] = {}
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(
            about=about, navigation=navigation, version=__version__, share=share
        )
        self._environment.filters.update(
            milli=format_milli,
            percent=format_percent,
            cores=format_cores,
            resource=format_resource,
            clock=time_of_day,
            comparison=describe_comparison,
            counts=describe_counts,
            budget=describe_budget,
            unreclaimable=describe_unreclaimable,
        )

    def respond(self, request: Request, view: View) -> Response:
        """The whole page, or its middle for one that is open; nothing where it has that already."""
        root = way_to_first_page(request.scope["path"])
        if FRAGMENT in request.headers:
            found = self._open_middle(view, root)
            headers = {"ETag": found.tag}
            if request.headers.get("if-none-match") == found.tag:
                return Response(status_code=_NOT_MODIFIED, headers=headers)
            return HTMLResponse(found.html, view.status, headers)
        middle = self._render(
            view, root, lambda stamp: describe_age(stamp, dt.datetime.now(dt.UTC))
        )
        page = self._environment.get_template("page.html").render(
            view=view, middle=middle, root=root
        )
        return HTMLResponse(page, view.status)

    def _open_middle(self, view: View, root: str) -> RenderedMiddle:
        """Without ages, which an open page counts by itself. Several windows with the same view of
        a thousand nodes cost one rendering."""
        key = f"{root} {view.key}" if view.key else ""
        last = self._last.get(view.template)
        if key and last is not None and last.key == key:
            return last
        html = self._render(view, root, lambda _stamp: "")
        digest = hashlib.blake2b(html.encode(), digest_size=12).hexdigest()
        found = RenderedMiddle(key, html, f'"{digest}"')
        self._last[view.template] = found
        return found

    def _render(self, view: View, root: str, age: Callable[[str], str]) -> Markup:
        template = self._environment.get_template(view.template)
        text = template.render(view=view, root=root, age=age, **view.values)
        return Markup(text)  # noqa: S704 - the template escaped it


def way_to_first_page(path: str) -> str:
    """Relative, so that no address of the page has its token written out: /nodes/a is ../ away."""
    return "/".join([".."] * (path.count("/") - 1)) or "."
