"""One setting of the rebalancer: how it is called, what it may be, and where it is kept.

Owns the check of one value, out of a file or as a text, whatever its kind.
"""

import enum

import msgspec

from slackwater.settings.bound import Bound, check, check_text
from slackwater.settings.choice import Choice, Flag, check_flag, choose
from slackwater.settings.real import Real, check_real, check_real_text
from slackwater.settings.rebalancer import (
    KafkaProtocol,
    LagMode,
    LagSum,
    LogLevel,
    Removal,
    RequestSource,
    SaslMechanism,
    UsageSource,
)
from slackwater.settings.setting import split_words
from slackwater.settings.wording import (
    Listing,
    Pairs,
    Wording,
    check_listing,
    check_listing_text,
    check_pairs,
    check_pairs_text,
    check_wording,
    shown_default,
)

Kind = Bound | Real | Choice | Flag | Wording | Listing | Pairs
Word = (
    Removal
    | UsageSource
    | RequestSource
    | LagMode
    | LagSum
    | LogLevel
    | KafkaProtocol
    | SaslMechanism
)
Value = int | float | str | Word | tuple[str, ...] | tuple[tuple[str, str], ...]

#: What Go's strconv.ParseBool takes. "yes" is not in it: the original read it as false.
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


class Scope(enum.Enum):
    """RUN: one for the run. WORKLOAD: each workload's own; a flag or a variable overrules the
    file. IDENTITY: which pods are meant; there an entry of the file overrules flag and variable,
    or one flag would point all workloads at the same pods."""

    RUN = "run"
    WORKLOAD = "workload"
    IDENTITY = "identity"


class Entry(msgspec.Struct, frozen=True):
    """`path`: of attributes, in RunSettings or in WorkloadSettings. `words`: the type of a Choice.
    `otherwise`: the default in words, where it follows from something else."""

    setting: Kind
    path: tuple[str, ...]
    scope: Scope
    words: type[Word] | None = None
    otherwise: str = ""

    @property
    def key(self) -> str:
        """In the file, with a dot where it is in a mapping."""
        return self.setting.name

    @property
    def flag(self) -> str:
        return "--" + "-".join(split_words(self.key))

    @property
    def variable(self) -> str:
        """Our own name for it; the original's names are contract.rebalancer's."""
        return "SLACKWATER_REBALANCE_" + "_".join(split_words(self.key)).upper()

    def default(self) -> str:
        """For people."""
        if self.otherwise:
            return self.otherwise
        match self.setting:
            case Bound() as bound:
                return bound.shown(bound.default)
            case Real() as real:
                return real.shown(real.default)
            case Wording() | Listing() | Pairs() as text:
                return shown_default(text)
            case Choice() as choice:
                return choice.default
            case Flag() as flag:
                return str(flag.default).lower()


def checked(entry: Entry, value: object, where: str) -> Value:
    """A value out of a file."""
    match entry.setting:
        case Bound() as bound:
            return check(bound, value, where)
        case Real() as real:
            return check_real(real, value, where)
        case Flag() as flag:
            return check_flag(flag, value, where)
        case Choice() as choice:
            return _word(entry, choose(choice, value, where))
        case Wording() as wording:
            return check_wording(wording, value, where)
        case Listing() as listing:
            return check_listing(listing, value, where)
        case Pairs() as pairs:
            return check_pairs(pairs, value, where)


def checked_text(entry: Entry, text: str, where: str) -> Value:
    """A value out of a flag or an environment variable."""
    match entry.setting:
        case Bound() as bound:
            return check_text(bound, text, where)
        case Real() as real:
            return check_real_text(real, text, where)
        case Flag() as flag:
            known = text in _TRUE or text in _FALSE
            return check_flag(flag, text in _TRUE if known else text, where)
        case Choice() as choice:
            return _word(entry, choose(choice, text, where))
        case Wording() as wording:
            return check_wording(wording, text, where)
        case Listing() as listing:
            return check_listing_text(listing, text, where)
        case Pairs() as pairs:
            return check_pairs_text(pairs, text, where)


def _word(entry: Entry, word: str) -> Value:
    return word if entry.words is None else entry.words(word)
