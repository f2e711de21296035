"""Lists, page by page and object by object: never more than one page in memory.

Owns paging: a page that comes too late (410, the server has forgotten the beginning) starts the
list again.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from slackwater.http.errors import UnreachableError
from slackwater.kube.api_status import HttpStatusError

T = TypeVar("T")

#: A list that is outdated again and again while it is read will be so the next time as well.
_MOST_STARTS = 4


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """`version` is where a watch goes on."""

    items: list[T]
    version: str


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, frozen=True):
    metadata: _Meta
    items: list[msgspec.Raw] | None = None


_PAGES = msgspec.json.Decoder(_Page)
FetchPage = Callable[[str], bytearray]


def all_pages(fetch: FetchPage, read: Callable[[msgspec.Raw], T], asked: str) -> Listing[T]:
    """`fetch` gets one page by its token; the first by none."""
    for _ in range(_MOST_STARTS - 1):
        try:
            return _from_start(fetch, read, asked)
        except HttpStatusError as refused:
            if refused.reason != "Expired":
                raise
    return _from_start(fetch, read, asked)


def _from_start(fetch: FetchPage, read: Callable[[msgspec.Raw], T], asked: str) -> Listing[T]:
    items: list[T] = []
    token = ""
    while True:
        page = _page(fetch(token), asked)
        items += [read(raw) for raw in page.items or ()]
        token = page.metadata.continue_
        if not token:
            return Listing(items, page.metadata.resource_version)


def _page(body: bytearray, asked: str) -> _Page:
    try:
        return _PAGES.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnreachableError(f"{asked}: the answer is no list: {error}") from None
