"""Extended resources of a container: amounts under names with a domain, such as
kubernetes.io/batch-cpu.

Owns how an amount is read: as Kubernetes' Quantity.Value(), but never rounded. That would make
1 out of "200m" of batch-cpu, a thousandth of a CPU (volcano issue 4625). A bad amount is a Gap
with one sentence, and the rest of the pod stays readable.
"""

from collections.abc import Mapping

from slackwater.contract.document import LARGEST_NUMBER, Field, members
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.model.units import QuantityError, Ratio, parse_quantity

#: By the resource's name, domain included.
Amounts = Mapping[str, int | Gap]
#: One for all containers: most have no extended resource. A plain mapping, as a recording takes
#: no other.
NO_AMOUNTS: Amounts = {}

# What the resources of Volcano and Koordinator count, after the domain's slash.
_WANTED = {
    "batch-cpu": "a whole number of milliCPU, zero or more, such as {}",
    "batch-memory": "a whole number of bytes, zero or more, such as 2Gi",
}
_WANTED_ELSE = "a whole number, zero or more, such as 2"
_EXAMPLE = 500


def read_amounts(field: Field | None) -> Amounts:
    """The extended resources in a mapping of requests or limits; cpu and memory are none."""
    return {name: _amount(name, each) for name, each in _stated(field)} or NO_AMOUNTS


def read_requests(field: Field | None, limits: Amounts) -> Amounts:
    """The requests, where they are absent the limits: SetDefaults_Pod in Kubernetes."""
    asked = {name: _within(name, each, limits.get(name)) for name, each in _stated(field)}
    completed = {**limits, **asked}
    return limits if completed == limits else completed


def _stated(field: Field | None) -> tuple[tuple[str, Field], ...]:
    """What stands under a name with a domain; null counts as absent."""
    found = () if field is None else members(field)
    return tuple((name, each) for name, each in found if "/" in name and each.value is not None)


def _within(name: str, field: Field, limit: int | Gap | None) -> int | Gap:
    amount = _amount(name, field)
    if isinstance(amount, Gap) or limit is None or isinstance(limit, Gap) or amount <= limit:
        return amount
    return _gap(field, f"at most the limit, which is {limit}")


def _amount(name: str, field: Field) -> int | Gap:
    """Kubernetes takes a bare number for a quantity as well: batch-cpu: 500."""
    value = field.value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _gap(field, _wanted(name, _EXAMPLE))
    try:
        exact = parse_quantity(value if isinstance(value, str) else quoted(value))
    except QuantityError:
        return _gap(field, _wanted(name, _EXAMPLE))
    amount, rest = divmod(exact.numerator, exact.denominator)
    if rest or not 0 <= amount <= LARGEST_NUMBER:
        return _gap(field, _wanted(name, _meant(exact)))
    return amount


def _meant(exact: Ratio) -> int:
    """What to write for a part of a CPU: 200 for "200m", 1500 for "1.5"."""
    milli = exact.of(1000)
    return milli if 0 < milli <= LARGEST_NUMBER else _EXAMPLE


def _wanted(name: str, milli: int) -> str:
    return _WANTED.get(name.rpartition("/")[2], _WANTED_ELSE).format(milli)


def _gap(field: Field, wanted: str) -> Gap:
    return Gap(field.problem(wanted).sentence())
