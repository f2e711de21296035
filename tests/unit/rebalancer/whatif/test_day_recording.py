"""Recorded days as CSV and as Prometheus' JSON; one sentence for what is wrong in them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.problem import InvalidError
from slackwater.rebalancer.observed import Cores
from slackwater.rebalancer.whatif import day_recording
from slackwater.rebalancer.whatif.day import UsageSample
from slackwater.rebalancer.whatif.day_recording import read_recording

HEAD = "time,pod,cores,request\n"


def read(text: str, request: float | None = None) -> tuple[UsageSample, ...]:
    return read_recording(text, "day.csv", None if request is None else Cores(request))


def sentence(text: str, request: float | None = None) -> str:
    with pytest.raises(InvalidError) as refused:
        read(text, request)
    told = str(refused.value)
    assert "\n" not in told
    return told


def sample(at: float, pod: str, cores: float, request: float = 1.0) -> UsageSample:
    return UsageSample(at, pod, Cores(cores), Cores(request))


@pytest.mark.parametrize(
    ("text", "samples"),
    [
        (HEAD + "300,a,0.5,1\n", [sample(300, "a", 0.5)]),
        (HEAD + "1970-01-01T00:05:00Z,a,0.5,1\n", [sample(300, "a", 0.5)]),
        (HEAD + "1970-01-01T01:05:00.5+01:00,a,0.5,1\n", [sample(300.5, "a", 0.5)]),
        (HEAD + "1970-01-01 00:05:00Z,a,0.5,1\n", [sample(300, "a", 0.5)]),
        (HEAD + " 300 , a ,  0.5,1 \r\n", [sample(300, "a", 0.5)]),
        ("\ufeff" + HEAD + "300,a,0.5,1", [sample(300, "a", 0.5)]),
        ("Pod,CORES,Time,node,request\na,0.5,300,n1,2\n", [sample(300, "a", 0.5, 2.0)]),
        (HEAD + '300,"a",5e-1,1\n\n , ,\n', [sample(300, "a", 0.5)]),
        (HEAD + "600,a,1,1\n300,b,0,1\n300,a,2,1\n",
         [sample(300, "a", 2), sample(300, "b", 0), sample(600, "a", 1)]),
        (HEAD + "300,a,,1\n300,b,NaN,1\n300,c,1,1\n", [sample(300, "c", 1)]),
    ],
    ids=["seconds", "RFC 3339", "with a zone", "a blank for T", "blanks", "a byte order mark",
         "columns as they come", "empty lines", "rows as they come", "empty and NaN are none"],
)  # fmt: skip
def test_csv(text: str, samples: list[UsageSample]) -> None:
    assert read(text) == tuple(samples)


def test_a_request_that_is_not_said_is_the_one_for_all() -> None:
    assert read("time,pod,cores\n0,a,1\n", 0.5) == (sample(0, "a", 1, 0.5),)
    text = HEAD + "0,a,1,2\n0,b,1,\n0,c,1\n0,d,1,nan\n"
    assert [each.request for each in read(text, 0.5)] == [2.0, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ("day.csv line 1 is missing, but must be a header with time, pod, cores and, where it "
             "is known, request")),
        ("a,b\n1,2\n", "day.csv line 1 is 'a,b', but must be a header"),
        ("time,pod,cores,cores\n", "day.csv line 1 is 'time,pod,cores,cores', but must be"),
        ("0,a,1,1\n", "day.csv line 1 is '0,a,1,1', but must be a header"),
        (HEAD, "day.csv is without a sample, but must be a recording with one or more"),
        (HEAD + "0,a,nan,1\n", "day.csv is without a sample"),
        (HEAD + "0,a,1,1\n0,b,much,1\n", ("day.csv line 3, cores, is 'much', but must be a number "
                                         "of cores, 0 to 10000")),
        (HEAD + "0,a,-0.1,1\n", "day.csv line 2, cores, is '-0.1', but must be"),
        (HEAD + "0,a,inf,1\n", "day.csv line 2, cores, is 'inf', but must be"),
        (HEAD + "0,a,10001,1\n", "cores, is '10001', but must be a number of cores, 0 to 10000"),
        (HEAD + "0,a,1_0,1\n", "cores, is '1_0', but must be"),
        (HEAD + "0,a,٣,1\n", "cores, is '٣', but must be"),
        (HEAD + "0,a,1,0\n", ("day.csv line 2, request, is '0', but must be a number of cores, "
                             "above 0 and up to 10000")),
        (HEAD + "0,a,1,\n", ("day.csv line 2, request, is missing, but must be a number of cores, "
                            "above 0 and up to 10000, or said by --request for all")),
        (HEAD + "0,,1,1\n", "day.csv line 2, pod, is '', but must be a pod's name"),
        (HEAD + "0,a\n", ("day.csv line 2, cores, is missing, but must be a number of cores, 0 to "
                          "10000, or an empty cell where there is no sample")),
        ("cores,time,pod\n1,0,a\n\n,0,b\n0,c\n", "day.csv line 5, pod, is '', but must be"),
        (HEAD + "0\n", "day.csv line 2, pod, is '', but must be a pod's name"),
        (HEAD + "soon,a,1,1\n", ("day.csv line 2, time, is 'soon', but must be RFC 3339 such as "
                                "2026-11-17T12:00:00Z, or seconds from 0 to 253402300799")),
        (HEAD + "-1,a,1,1\n", "time, is '-1', but must be"),
        (HEAD + "nan,a,1,1\n", "time, is 'nan', but must be"),
        (HEAD + "1e300,a,1,1\n", "time, is '1e300', but must be"),
        (HEAD + "2026-11-17,a,1,1\n", "time, is '2026-11-17', but must be"),
        (HEAD + "2026-11-17T12:00:00,a,1,1\n", "time, is '2026-11-17T12:00:00', but must be"),
        (HEAD + "2026-13-17T12:00:00Z,a,1,1\n", "time, is '2026-13-17T12:00:00Z', but must be"),
        (HEAD + "0,a,1,1\n5,a,1,1\n0,a,2,1\n", ("day.csv line 4, pod, is 'a', but must be there "
                                               "once at each time")),
        (HEAD + '0,"a,1,1\n', "day.csv line 2 is unexpected end of data, but must be CSV"),
        (HEAD + f"0,{'a' * 200_000},1,1\n", "is field larger than field limit"),
    ],
)  # fmt: skip
def test_bad_csv_is_one_sentence(text: str, told: str) -> None:
    assert told in sentence(text)


def answer(*series: Any, kind: str = "matrix") -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": list(series)}}


def series(pod: Any, *values: Any) -> dict[str, Any]:
    return {"metric": {"pod": pod, "namespace": "default"}, "values": list(values)}


def test_prometheus_answer() -> None:
    found = answer(series("b", [300, "0.5"], [600.25, "NaN"]), series("a", [300, "1e-1"]))
    text = f"\n {json.dumps(found)}"
    assert read(text, 2.0) == (sample(300, "a", 0.1, 2.0), sample(300, "b", 0.5, 2.0))


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"status": "error", "error": "timeout"},
         "day.csv: data is missing, but must be there, as in an answer of /api/v1/query_range"),
        ({"data": []}, "day.csv: data is a list, but must be a mapping"),
        ({"data": {}}, "day.csv: data.resultType is missing, but must be there"),
        (answer(kind="vector"), "day.csv: data.resultType is 'vector', but must be matrix"),
        ({"data": {"resultType": "matrix"}}, "day.csv: data.result is missing"),
        (answer(), "day.csv is without a sample"),
        (answer(series("a")), "day.csv is without a sample"),
        (answer({"metric": {}, "values": []}), "day.csv: data.result[0].metric.pod is missing"),
        (answer(series(7)), "data.result[0].metric.pod is 7, but must be a pod's name"),
        (answer(series("")), "data.result[0].metric.pod is '', but must be a pod's name"),
        (answer(series("a", [0, "1"]), series("a", [0, "2"])),
         ("day.csv: data.result[1].metric.pod is 'a', but must be that of one series: "
         "sum by (pod) in the query")),
        (answer({"metric": {"pod": "a"}}), "day.csv: data.result[0].values is missing"),
        (answer(series("a", [0, "1"], 7)),
         "day.csv: data.result[0].values[1] is 7, but must be [seconds, \"cores\"]"),
        (answer(series("a", [0])), "data.result[0].values[0] is a list, but must be [seconds"),
        (answer(series("a", [0, "-1"])),
         "day.csv: data.result[0].values[0], cores, is '-1', but must be a number of cores"),
        (answer(series("a", [0, "+Inf"])), "values[0], cores, is '+Inf', but must be"),
        (answer(series("a", [None, "1"])), "values[0] is a list, but must be [seconds"),
        (answer(series("a", [True, "1"])), "values[0] is a list, but must be [seconds"),
        (answer(series("a", [0, 1.5])), "values[0] is a list, but must be [seconds"),
        (answer(series("a", [-1, "1"])), "values[0], time, is '-1', but must be RFC 3339"),
        (answer(series("a", [0, "1"], [0, "2"])),
         "day.csv: data.result[0].values[1], pod, is 'a', but must be there once at each time"),
    ],
)  # fmt: skip
def test_bad_answers_are_one_sentence(document: dict[str, Any], told: str) -> None:
    assert told in sentence(json.dumps(document), 1.0)


def test_an_answer_has_no_requests() -> None:
    text = json.dumps(answer(series("a", [0, "1"])))
    assert "request, is missing, but must be a number of cores" in sentence(text)


@pytest.mark.parametrize("text", ["{", '{"data": ', "{]", "{" * 100_000])
def test_no_json_is_one_sentence(text: str) -> None:
    assert sentence(text).startswith("day.csv is ")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for told in (text, HEAD + text):
        try:
            found = read(told, 1.0)
        except InvalidError as error:
            assert len(str(error).splitlines()) == 1, "one sentence"
        else:
            assert found


names = st.text("abc-0123456789", min_size=1, max_size=12)
cores = st.floats(0, 10_000)
stamps = st.integers(0, 4_000_000_000)


@given(st.dictionaries(st.tuples(stamps, names), st.tuples(cores, st.floats(0.001, 100)),
                       min_size=1, max_size=20))  # fmt: skip
def test_what_is_written_is_read(found: dict[tuple[int, str], tuple[float, float]]) -> None:
    rows = "".join(f"{at},{pod},{used!r},{asked!r}\n" for (at, pod), (used, asked) in found.items())
    expected = [sample(float(at), pod, *found[at, pod]) for at, pod in sorted(found)]
    assert read(HEAD + rows) == tuple(expected)


@given(st.dictionaries(names, st.dictionaries(stamps, cores, min_size=1, max_size=6),
                       min_size=1, max_size=5))  # fmt: skip
def test_what_prometheus_writes_is_read(found: dict[str, dict[int, float]]) -> None:
    result = [
        series(pod, *([at, repr(used)] for at, used in values.items()))
        for pod, values in found.items()
    ]
    expected = sorted(
        (float(at), pod, used) for pod, values in found.items() for at, used in values.items()
    )
    samples = read(json.dumps(answer(*result)), 2.0)
    assert samples == tuple(sample(at, pod, used, 2.0) for at, pod, used in expected)


@pytest.mark.parametrize("count", [3, 4])
def test_more_samples_than_anybody_needs_are_refused(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(day_recording, "MOST_SAMPLES", 3)
    text = HEAD + "".join(f"{at},a,1,1\n" for at in range(count))
    if count == 3:
        assert len(read(text)) == 3
    else:
        assert sentence(text) == (
            "day.csv is over 3 samples, but must be at most 3: record them further apart"
        )
