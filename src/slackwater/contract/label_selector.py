"""Kubernetes label selectors: matchLabels and matchExpressions, and one line of text as kubectl -l
takes it (app=consumer,tier in (a, b),!canary).

Their meaning and bounds are those of k8s.io/apimachinery (LabelSelectorAsSelector,
labels.NewRequirement, labels.Parse), without the comparisons > and <, which no workload uses. What
is merely invalid does not raise: `flaw` says it, and the caller decides whether that is an error or
an entry to skip.
"""

import enum
import re
from collections.abc import Mapping

import msgspec

from slackwater.contract.document import Field, elements, member, text, texts
from slackwater.model.problem import InvalidError, Problem, below, quoted

_WORD = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(_WORD, re.ASCII)
_PREFIX = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_LONGEST_PREFIX = 253
_KEY_WANTED = "a label's key such as team or example.com/team"
_VALUE_WANTED = "a label's value: at most 63 letters, digits, '-', '_' and '.'"


class Operator(enum.Enum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a node's or pod's labels. `operator` is still text: it may be wrong."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()
    #: The field, for a message about it.
    where: str = ""

    def holds(self, labels: Mapping[str, str]) -> bool:
        """NotIn holds where the key is absent, as in Kubernetes."""
        match self.operator:
            case Operator.IN.value:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN.value:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS.value:
                return self.key in labels
            case _:
                return self.key not in labels


class LabelSelector(msgspec.Struct, frozen=True):
    """All requirements must hold; without any, everything is selected."""

    requirements: tuple[Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)


def read_selector(field: Field) -> LabelSelector:
    """The selector as it is written; raises InvalidError only where a field has a wrong type."""
    pairs = member(field, "matchLabels")
    expressions = member(field, "matchExpressions")
    found = [] if pairs is None else _pairs(pairs)
    if expressions is not None:
        found += [_expression(each) for each in elements(expressions)]
    return LabelSelector(tuple(found))


def _pairs(field: Field) -> list[Requirement]:
    return [
        Requirement(key, Operator.IN.value, (value,), below(field.where(), key))
        for key, value in texts(field).items()
    ]


def _expression(field: Field) -> Requirement:
    key, operator, values = (member(field, name) for name in ("key", "operator", "values"))
    return Requirement(
        "" if key is None else text(key),
        "" if operator is None else text(operator),
        () if values is None else tuple(text(each) for each in elements(values)),
        field.where(),
    )


def flaw(selector: LabelSelector) -> Problem | None:
    """What makes Kubernetes refuse this selector; None if nothing does."""
    return next((bad for each in selector.requirements if (bad := _flaw_of(each))), None)


def _flaw_of(requirement: Requirement) -> Problem | None:
    where = requirement.where
    if not _is_key(requirement.key):
        return Problem(f"{where}: key", quoted(requirement.key), _KEY_WANTED)
    known = [operator.value for operator in Operator]
    if requirement.operator not in known:
        wanted = f"one of {', '.join(known)}"
        return Problem(f"{where}: operator", quoted(requirement.operator), wanted)
    listing = requirement.operator in (Operator.IN.value, Operator.NOT_IN.value)
    if listing != bool(requirement.values):
        seen = f"a list of {len(requirement.values)}"
        wanted = f"{'not empty' if listing else 'empty'} with {requirement.operator}"
        return Problem(f"{where}: values", seen, wanted)
    odd = next((each for each in requirement.values if not _is_value(each)), None)
    return None if odd is None else Problem(f"{where}: value", quoted(odd), _VALUE_WANTED)


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix)):
        return False
    return bool(_NAME.fullmatch(name))


def _is_value(value: str) -> bool:
    return not value or bool(_NAME.fullmatch(value))


_KEY = r"(?P<key>[^\s,=!()<>]+)"
_ONE = re.compile(rf"\s*{_KEY}\s*(?P<sign>==|=|!=)\s*(?P<value>[^\s,=!()<>]*)\s*")
_SET = re.compile(rf"\s*{_KEY}\s+(?P<word>in|notin)\s*\((?P<values>[^()=!<>]*)\)\s*")
_NONE = re.compile(rf"\s*!\s*{_KEY}\s*")
_SOME = re.compile(rf"\s*{_KEY}\s*")
_WANTED = "a label selector such as app=consumer or tier in (a,b),!canary"
#: More is an attack or a mistake: the API server takes no label of more than 320 characters.
_LONGEST = 4096


def parse_selector(text: str, source: str) -> LabelSelector:
    """Empty text selects everything; InvalidError with one sentence for what is none."""
    if not text.strip():
        return LabelSelector()
    wrong = InvalidError(Problem(source, quoted(text), _WANTED))
    if len(text) > _LONGEST:
        raise wrong
    found: list[Requirement] = []
    place = 0
    while True:
        read = _requirement(text, place, source)
        if read is None:
            raise wrong
        found.append(read[0])
        place = read[1]
        if place == len(text):
            break
        if text[place] != ",":
            raise wrong
        place += 1
    selector = LabelSelector(tuple(found))
    if (bad := flaw(selector)) is not None:
        raise InvalidError(bad)
    return selector


def is_selector(text: str) -> bool:
    try:
        parse_selector(text, "")
    except InvalidError:
        return False
    return True


def _requirement(text: str, place: int, source: str) -> tuple[Requirement, int] | None:
    """One condition and where it ends; None where there is none."""
    if match := _SET.match(text, place):
        operator = Operator.IN if match["word"] == "in" else Operator.NOT_IN
        values = tuple(each.strip() for each in match["values"].split(","))
    elif match := _ONE.match(text, place):
        operator = Operator.NOT_IN if match["sign"] == "!=" else Operator.IN
        values = (match["value"],)
    elif match := _NONE.match(text, place):
        operator, values = Operator.DOES_NOT_EXIST, ()
    elif match := _SOME.match(text, place):
        operator, values = Operator.EXISTS, ()
    else:
        return None
    return Requirement(match["key"], operator.value, values, source), match.end()
