"""Values of settings as a file holds them."""

from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

from slackwater.contract.schema import Unit
from slackwater.model.units import Micros, format_duration
from slackwater.settings.setting import Setting

_MOST = 10**6


def value_of(setting: Setting) -> st.SearchStrategy[Any]:
    """Values inside the bounds, open ends cut at a million."""
    found = setting.annotation
    match found.type:
        case inspect.IntType(ge=low, le=high):
            numbers = st.integers(low or 0, _MOST if high is None else int(high))
            if found.unit is Unit.DURATION:
                return numbers.map(lambda number: format_duration(Micros(number)))
            return numbers
        case inspect.EnumType(cls=cls):
            return st.sampled_from([each.value for each in cls])
        case inspect.BoolType():
            return st.booleans()
        case inspect.VarTupleType():
            return st.lists(st.sampled_from(["a", "b-1"]), max_size=2)
        case _:
            # The setting's own domain, so that no two settings get the same name.
            name = setting.key.rpartition(".")[2]
            return st.sampled_from(["a", "b"]).map(lambda word: f"{word}.io/{name}")


def file_value(setting: Setting, value: Any) -> Any:
    """A value of the Struct as a file holds it."""
    if setting.annotation.unit is Unit.DURATION:
        return format_duration(value)
    if isinstance(value, tuple):
        return list(value)
    return getattr(value, "value", value)
