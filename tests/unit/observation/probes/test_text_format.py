"""Prometheus' text format: what is read, what is left out, what is refused, and in which words."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from slackwater.model.gap import Gap
from slackwater.model.metric import Sample
from slackwater.observation.probes.text_format import (
    LARGEST_ANSWER,
    LONGEST_LABEL,
    MOST_LABELS,
    MOST_SERIES,
    Exposition,
    parse_exposition,
)

#: The example of Prometheus' own documentation of the format.
DOCUMENTED = rb"""
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find:\n\"FILE.TXT\""} 1.458e9

# Minimalistic line:
metric_without_timestamp_and_labels 12.47

# A weird metric from before the epoch:
something_weird{problem="division by zero"} +Inf -3982045

# A histogram, which has a pretty complex representation in the text format:
# TYPE http_request_duration_seconds histogram
http_request_duration_seconds_bucket{le="0.05"} 24054
http_request_duration_seconds_bucket{le="+Inf"} 144320
http_request_duration_seconds_sum 53423
http_request_duration_seconds_count 144320

# Finally a summary, which has a complex representation, too:
# TYPE rpc_duration_seconds summary
rpc_duration_seconds{quantile="0.01"} 3102
rpc_duration_seconds_count 2693
"""


def read(body: bytes, *names: str) -> Exposition:
    found = parse_exposition(body, names or None)
    assert isinstance(found, Exposition), found
    return found


def test_the_documented_example() -> None:
    found = read(DOCUMENTED)
    assert found.series["http_requests_total"] == (
        Sample(1027.0, {"method": "post", "code": "200"}),
        Sample(3.0, {"method": "post", "code": "400"}),
    )
    (dos,) = found.series["msdos_file_access_time_seconds"]
    assert dos.labels == {"path": "C:\\DIR\\FILE.TXT", "error": 'Cannot find:\n"FILE.TXT"'}
    assert found.series["metric_without_timestamp_and_labels"] == (Sample(12.47),)
    assert found.series["rpc_duration_seconds"] == (Sample(3102.0, {"quantile": "0.01"}),)
    assert found.series["http_request_duration_seconds_bucket"][1].labels == {"le": "+Inf"}
    assert "something_weird" not in found.series
    assert found.why_missing("something_weird") == (
        "something_weird{problem='division by zero'} is inf, not a finite number"
    )


def test_only_what_is_wanted_is_kept() -> None:
    found = read(DOCUMENTED, "rpc_duration_seconds_count", "absent")
    assert found == Exposition({"rpc_duration_seconds_count": (Sample(2693.0),)})
    assert found.why_missing("absent") == "the answer has no series 'absent'"


@pytest.mark.parametrize(
    ("line", "value", "labels"),
    [
        ("a 1", 1.0, {}),
        ("a 1.", 1.0, {}),
        ("a .5", 0.5, {}),
        ("a -1e-3", -0.001, {}),
        ("a\t+1E3", 1000.0, {}),
        ("  a  7  ", 7.0, {}),
        ("a{} 1", 1.0, {}),
        ("a { } 1", 1.0, {}),
        ('a{b="c"}1', 1.0, {"b": "c"}),
        ('a{ b = "c" , d="" , } 1 12', 1.0, {"b": "c", "d": ""}),
        ('a{b="} # {"} 1', 1.0, {"b": "} # {"}),
        ('a{b="\u00e4\u20ac"} 1', 1.0, {"b": "\u00e4\u20ac"}),
        ('a 3 1520879607.789 # {trace_id="KOO5S4vxi0o"} 0.67', 3.0, {}),
    ],
)
def test_lines(line: str, value: float, labels: dict[str, str]) -> None:
    assert read(line.encode()).series == {"a": (Sample(value, labels),)}


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a1",
        "a b",
        "a 0x10",
        "a 1_000",
        "a 1 soon",
        "a 1 2 3",
        "a 1\r",
        "1a 1",
        "a-b 1",
        'a{b="c" 1',
        'a{b="c"d="e"} 1',
        "a{b='c'} 1",
        'a{b="c\\x"} 1',
        'a{1b="c"} 1',
        "a{,} 1",
        'a{b="c"}',
        "<html><body>",
        '{"status":"ok"}',
        "Not Found",
    ],
)
@pytest.mark.parametrize("names", [None, ("a",), ("other",)])
def test_what_is_no_text_format_is_refused(line: str, names: tuple[str, ...] | None) -> None:
    """The first series is always looked at, whoever wants it."""
    found = parse_exposition(f"# a comment\n{line}\n".encode(), names)
    assert isinstance(found, Gap)
    begin = f"the answer is not in Prometheus' text format: line 2 begins {line[:24]!r}"
    assert found.reason == begin.replace('"', "'") or found.reason[:60] == begin[:60]


def test_a_page_is_refused_in_one_sentence_that_holds_no_secret() -> None:
    found = parse_exposition(b'{"access_token":"ya29.AbCdEfGh0123456789","expires_in":3599}')
    assert found == Gap(
        "the answer is not in Prometheus' text format: line 1 begins '{\"access_token\":\"ya29.Ab'"
    )


def test_bytes_that_are_no_text() -> None:
    assert parse_exposition(b'a{b="\xff"} 1\n') == Gap(
        "the answer is not in Prometheus' text format: it is not UTF-8"
    )


def test_an_empty_answer_has_no_series() -> None:
    assert read(b"") == Exposition({}) == read(b"\n \n# EOF\n")


@pytest.mark.parametrize("value", ["NaN", "nan", "+Inf", "-Inf", "Infinity", "1e999"])
def test_what_is_not_finite_is_left_out_and_the_others_count(value: str) -> None:
    found = read(f'a{{b="1"}} {value}\na{{b="2"}} 3\n'.encode())
    assert found.series == {"a": (Sample(3.0, {"b": "2"}),)}
    assert found.left_out == {"a": (f"a{{b='1'}} is {float(value):g}, not a finite number",)}


def test_a_series_that_is_there_twice_is_left_out() -> None:
    """Also where both say the same, and whatever the order of their labels: who is right?"""
    found = read(b'a{b="1",c="2"} 1\na{c="2",b="1"} 1\na 5\nd 6\n')
    assert found.series == {"a": (Sample(5.0),), "d": (Sample(6.0),)}
    assert found.left_out == {"a": ("a{b='1',c='2'} is there twice",)}


def test_bounds_on_labels() -> None:
    many = ",".join(f'l{n}="x"' for n in range(MOST_LABELS + 1))
    long = "x" * (LONGEST_LABEL + 1)
    text = f'a{{{many}}} 1\nb{{c="{long}"}} 1\nd{{e="1",e="2"}} 1\nf 1\ng{{__name__="h"}} 1\n'
    found = read(text.encode())
    assert found.series == {"f": (Sample(1.0),)}
    assert found.left_out == {
        "a": (f"a series of a has {MOST_LABELS + 1} labels, more than {MOST_LABELS}",),
        "b": (f"a series of b has a label of more than {LONGEST_LABEL} characters",),
        "d": ("a series of d has a label twice",),
        "g": (
            "a series of g has a label that begins with __, which Prometheus reserves for itself",
        ),
    }


def test_bounds_on_answers() -> None:
    assert parse_exposition(b"a" * (LARGEST_ANSWER + 1)) == Gap("the answer has more than 1 MiB")
    many = b"".join(b'a{b="%d"} 1\n' % n for n in range(MOST_SERIES + 1))
    assert parse_exposition(many) == Gap(
        f"the answer has more than {MOST_SERIES} series of the names asked for"
    )
    assert read(many, "other") == Exposition({})


def test_reasons_are_bounded() -> None:
    found = read(b"".join(b'a{b="%d"} NaN\n' % n for n in range(1000)))
    assert found.why_missing("a") == "a{b='0'} is nan, not a finite number and 7 more"


NAMES = st.from_regex(r"\A[a-zA-Z_:][a-zA-Z0-9_:]{0,20}\Z")
LABELS = st.dictionaries(
    st.from_regex(r"\A(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,10}\Z"),
    st.text(max_size=20),
    max_size=5,
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def line(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{escaped(each)}"' for key, each in labels.items())
    return f"{name}{{{inside}}} {value!r}"


@given(NAMES, LABELS, NUMBERS)
def test_what_is_written_is_read_again(name: str, labels: dict[str, str], value: float) -> None:
    text = line(name, labels, value)
    assert read(text.encode()).series == {name: (Sample(value, labels),)}


@given(st.lists(st.tuples(NAMES, LABELS, NUMBERS), max_size=8))
def test_prometheus_own_client_reads_the_same(
    series: list[tuple[str, dict[str, str], float]],
) -> None:
    """Labels that end in \\r and such are where the client splits lines and Prometheus does not."""
    plain = [(n, {k: v for k, v in ls.items() if v.isprintable()}, x) for n, ls, x in series]
    unique = {(n, tuple(sorted(ls.items()))): (n, ls, x) for n, ls, x in plain}
    text = "\n".join(line(*each) for each in unique.values()) + "\n"
    theirs = [
        (each.name, sorted(each.labels.items()), each.value)
        for family in text_string_to_metric_families(text)
        for each in family.samples
    ]
    ours = [
        (name, sorted(each.labels.items()), each.value)
        for name, found in read(text.encode()).series.items()
        for each in found
    ]
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))


@pytest.mark.parametrize("label", ["__", "__name__", "__a"])
def test_prometheus_own_client_refuses_a_reserved_label_too(label: str) -> None:
    text = line("A", {label: ""}, 0.0) + "\n"
    with pytest.raises(ValueError, match=r"Invalid labels|more than once"):
        list(text_string_to_metric_families(text))
    found = read(text.encode())
    assert found.series == {}
    assert "begins with __" in found.why_missing("A")


@given(
    st.binary(max_size=300) | st.text(alphabet='a{}="\\\n #1.e+ ,\t', max_size=80).map(str.encode)
)
def test_garbage_raises_nothing(body: bytes) -> None:
    found = parse_exposition(body)
    if isinstance(found, Gap):
        assert "\n" not in found.reason
        assert len(found.reason) < 200
    else:
        assert all(math.isfinite(s.value) for each in found.series.values() for s in each)
