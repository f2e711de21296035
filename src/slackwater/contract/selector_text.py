"""Label selectors as one line of text: app=consumer,tier in (a, b),!canary.

Owns this grammar (k8s.io/apimachinery/pkg/labels: Parse), as kubectl -l takes it, without the
comparisons > and <, which no workload uses.
"""

import re

from slackwater.contract.label_selector import LabelSelector, Operator, Requirement, flaw
from slackwater.model.problem import InvalidError, Problem, quoted

_KEY = r"(?P<key>[^\s,=!()<>]+)"
_ONE = re.compile(rf"\s*{_KEY}\s*(?P<sign>==|=|!=)\s*(?P<value>[^\s,=!()<>]*)\s*")
_SET = re.compile(rf"\s*{_KEY}\s+(?P<word>in|notin)\s*\((?P<values>[^()=!<>]*)\)\s*")
_NONE = re.compile(rf"\s*!\s*{_KEY}\s*")
_SOME = re.compile(rf"\s*{_KEY}\s*")
_WANTED = "a label selector such as app=consumer or tier in (a,b),!canary"
#: More is an attack or a mistake: the API server takes no label of more than 320 characters.
_LONGEST = 4096


def parse_selector(text: str, source: str) -> LabelSelector:
    """An empty text selects everything. Raises InvalidError."""
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
    return Requirement(source, match["key"], operator.value, values), match.end()
