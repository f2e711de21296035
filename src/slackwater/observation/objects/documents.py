"""Text as plain documents: YAML, of which JSON is a part.

Owns the sentence about text that is neither. YAML's parser is two MiB and slow, so it is loaded
only for text that is no JSON: in a cluster most configuration is.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from slackwater.bounded_read import LARGEST_READ, read_start
from slackwater.contract.document import parse_json
from slackwater.model.gap import Gap
from slackwater.model.problem import DocumentName, InvalidError, Problem, quoted

if TYPE_CHECKING:
    from yaml.nodes import Node


class RepeatedKeyError(InvalidError):
    """YAML 1.2 forbids it, and kubectl refuses it; whoever reads the first one is misled."""


def file_text(path: str, source: str) -> str:
    contents = read_start(path)
    if isinstance(contents, Gap):
        raise InvalidError(Problem(source, contents.reason, "a readable file"))
    if contents.cut:
        raise InvalidError(Problem(source, f"over {LARGEST_READ} bytes", "a smaller file"))
    try:
        return contents.data.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(Problem(source, f"no UTF-8 at byte {error.start}", "UTF-8")) from None


def documents_in(text: str, source: str | DocumentName) -> list[object]:
    """All documents of a YAML text."""
    import yaml

    try:
        return list(_loaded(text, source))
    except RepeatedKeyError:
        raise
    # Its constructors raise whatever their conversions do: `!!int ""` is an IndexError.
    except (
        yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else str(source)
        what = getattr(error, "problem", None) or type(error).__name__
        wanted = f"YAML or JSON (the parser says {quoted(what)})"
        raise InvalidError(Problem(where, "unreadable", wanted)) from None


def _loaded(text: str, source: str | DocumentName) -> Iterator[object]:
    """As yaml.load_all, which hands nobody the nodes: only they still have each key, and where."""
    import yaml

    # libyaml's parser is eight times as fast; not every build of PyYAML has it.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            _refuse_repeated(node, source)
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_repeated(root: "Node", source: str | DocumentName) -> None:
    """Before merge keys are merged: what a mapping says over them is there once."""
    from yaml.nodes import MappingNode, SequenceNode

    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        below: list[Node] = node.value if isinstance(node, SequenceNode) else []
        if isinstance(node, MappingNode):
            _refuse_among([key for key, _ in node.value], source)
            below = [each for pair in node.value for each in pair]
        for each in below:
            # Aliases are the same node again: a few bytes of them can be gigabytes of text.
            if not isinstance(each.value, str) and id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)


def _refuse_among(keys: "list[Node]", source: str | DocumentName) -> None:
    """By tag and text, as they are written: 1 and 01 are two."""
    known: dict[tuple[str, str], Node] = {}
    for key in keys:
        if not isinstance(key.value, str):
            continue
        first = known.setdefault((key.tag, key.value), key)
        if first is not key:
            here, there = (each.start_mark.line + 1 for each in (key, first))
            wanted = f"there once in its mapping (line {there} has it too)"
            raise RepeatedKeyError(Problem(f"{source}:{here}, a key,", quoted(key.value), wanted))


def one_document(text: str, source: str | DocumentName) -> object:
    """The only document of a text, JSON before YAML."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        found = _as_yaml(text, source)
    if len(found) != 1:
        raise InvalidError(Problem(str(source), f"{len(found)} documents", "one document"))
    return found[0]


def _as_yaml(text: str, source: str | DocumentName) -> list[object]:
    """Text with a brace in front was meant to be JSON, whose complaint says where it breaks."""
    try:
        return documents_in(text, source)
    except RepeatedKeyError:
        raise
    except InvalidError:
        if text.lstrip().startswith("{"):
            parse_json(text, source)
        raise
