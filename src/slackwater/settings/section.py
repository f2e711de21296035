"""A section of our settings: attributes of a Struct, each with its setting.

Owns what every section shares: an absent key or null keeps what there was, and a key that nobody
knows is refused, because a misspelt setting is a setting that is silently not set.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.settings.bound import Bound, check, check_text
from slackwater.settings.choice import Choice, Flag, check_flag, check_flag_text, choose
from slackwater.settings.resource_name import ResourceName, check_resource_name

Setting = Bound | Choice | Flag | ResourceName
#: Attribute of the section's Struct to its setting. The key in a file is the name's last word.
Section = Mapping[str, Setting]
_Values = TypeVar("_Values", bound=msgspec.Struct)


def key_of(setting: Setting) -> str:
    """The setting's key in its section."""
    return setting.name.rpartition(".")[2]


def checked(setting: Setting, value: object, where: str) -> int | str:
    """A value out of a file."""
    match setting:
        case Bound():
            return check(setting, value, where)
        case Choice():
            return choose(setting, value, where)
        case Flag():
            return check_flag(setting, value, where)
        case ResourceName():
            return check_resource_name(setting, value, where)


def checked_text(setting: Setting, text: str, where: str) -> int | str:
    """A value out of a flag or an environment variable."""
    match setting:
        case Bound():
            return check_text(setting, text, where)
        case Choice():
            return choose(setting, text, where)
        case Flag():
            return check_flag_text(setting, text, where)
        case ResourceName():
            return check_resource_name(setting, text, where)


def known_keys(value: object, known: Collection[str], where: str) -> dict[str, object]:
    """What a mapping says: those of its keys that are not null, if all of them are known."""
    if not isinstance(value, dict):
        raise InvalidError(Problem(where, quoted(value), "a mapping"))
    for key in value:
        if key not in known:
            wanted = f"one of {', '.join(known)}"
            raise InvalidError(Problem(f"a key of {where}", quoted(key), wanted))
    return {key: each for key, each in value.items() if each is not None}


def read_over(section: Section, value: object, where: str, base: _Values) -> _Values:
    """What a file's section says over `base`: an absent key, and one that is null, keeps what
    base says."""
    attributes = {key_of(setting): attribute for attribute, setting in section.items()}
    said = {
        attributes[key]: checked(section[attributes[key]], each, f"{where}.{key}")
        for key, each in known_keys(value, attributes, where).items()
    }
    words = {
        attribute: type(getattr(base, attribute))(word)
        for attribute, word in said.items()
        if isinstance(section[attribute], Choice)
    }
    return msgspec.structs.replace(base, **{**said, **words})


def rendered(section: Section, settings: msgspec.Struct) -> dict[str, object]:
    """The section of a file that reads as these settings."""
    return {
        key_of(setting): _written(setting, getattr(settings, attribute))
        for attribute, setting in section.items()
    }


def _written(setting: Setting, value: Any) -> object:  # noqa: ANN401  an attribute of a Struct
    """A value as a file holds it: a duration as 1s, a word as itself."""
    match setting:
        case Bound():
            return setting.written(value)
        case Choice():
            return value.value
        case Flag():
            return bool(value)
        case ResourceName():
            return str(value)
