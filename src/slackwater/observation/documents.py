"""Text as plain documents: YAML, of which JSON is a part.

Owns the sentence about text that is neither. YAML's parser is two MiB and slow, so it is loaded
only for text that is no JSON: in a cluster most configuration is.
"""

import msgspec

from slackwater.contract.document import ContractError, parse_json
from slackwater.model.complaint import Complaint, quoted
from slackwater.model.gap import Gap
from slackwater.observation.bounded_read import LARGEST_READ, read_start


def file_text(path: str, source: str) -> str:
    contents = read_start(path)
    if isinstance(contents, Gap):
        raise ContractError(Complaint(source, contents.reason, "a readable file"))
    if contents.cut:
        raise ContractError(Complaint(source, f"over {LARGEST_READ} bytes", "a smaller file"))
    try:
        return contents.data.decode()
    except UnicodeDecodeError as error:
        raise ContractError(Complaint(source, f"no UTF-8 at byte {error.start}", "UTF-8")) from None


def documents_in(text: str, source: str) -> list[object]:
    """All documents of a YAML text."""
    import yaml

    # libyaml's parser is eight times as fast; not every build of PyYAML has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return list(yaml.load_all(text, loader))
    # Its constructors raise whatever their conversions do: `!!int ""` is an IndexError.
    except (
        yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        what = getattr(error, "problem", None) or type(error).__name__
        wanted = f"YAML or JSON (the parser says {quoted(what)})"
        raise ContractError(Complaint(where, "unreadable", wanted)) from None


def one_document(text: str, source: str) -> object:
    """The only document of a text, JSON before YAML."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        found = _as_yaml(text, source)
    if len(found) != 1:
        raise ContractError(Complaint(source, f"{len(found)} documents", "one document"))
    return found[0]


def _as_yaml(text: str, source: str) -> list[object]:
    """Text with a brace in front was meant to be JSON, whose complaint says where it breaks."""
    try:
        return documents_in(text, source)
    except ContractError:
        if text.lstrip().startswith("{"):
            parse_json(text, source)
        raise
