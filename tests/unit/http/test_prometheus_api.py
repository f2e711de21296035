"""What comes back, well or badly formed: an Answer, or one clause that says what is wrong."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.connection import HttpResponse
from slackwater.http.prometheus_api import (
    PrometheusError,
    QueryResult,
    Series,
    TransientError,
    read_answer,
)

#: As Prometheus 2.42 sent it.
VECTOR = (
    b'{"status":"success","data":{"resultType":"vector","result":['
    b'{"metric":{"container":"app","pod":"web-a"},"value":[1794917409.853,"1.2000000000000002"]},'
    b'{"metric":{"container":"app","pod":"web-b"},"value":[1794917409.853,"1.1"]}]}}'
)
#: As VictoriaMetrics sends it, with what Prometheus has not.
VICTORIA = (
    b'{"status":"success","isPartial":false,"data":{"resultType":"vector","result":['
    b'{"metric":{"pod":"web-a"},"value":[1794917409,"1.2"]}]},"stats":{"seriesFetched": "1",'
    b'"executionTimeMsec":2}}'
)
HTML = b"<html>\n<body><h1>Please log in</h1></body></html>"


def reply(
    body: bytes, status: int = 200, kind: str = "application/json", **headers: str
) -> HttpResponse:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status, {"content-type": kind, **shown}, body)


def vector(*samples: object) -> bytes:
    result = {"resultType": "vector", "result": samples}
    return msgspec.json.encode({"status": "success", "data": result})


def sample(value: object, **labels: str) -> dict[str, object]:
    return {"metric": labels, "value": [1794917409.853, value]}


def refusal(answer: HttpResponse, *secrets: str) -> PrometheusError:
    with pytest.raises(PrometheusError) as caught:
        read_answer(answer, secrets)
    return caught.value


def test_a_vector() -> None:
    assert read_answer(reply(VECTOR)) == QueryResult(
        (
            Series({"container": "app", "pod": "web-a"}, 1.2000000000000002),
            Series({"container": "app", "pod": "web-b"}, 1.1),
        )
    )


def test_victoria_metrics() -> None:
    assert read_answer(reply(VICTORIA)) == QueryResult((Series({"pod": "web-a"}, 1.2),))


def test_an_empty_vector_is_an_answer() -> None:
    assert read_answer(reply(vector())) == QueryResult(())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0.0), ("1e-05", 1e-05), ("-2.5", -2.5), ("+Inf", math.inf), ("-Inf", -math.inf)],
)
def test_numbers(text: str, expected: float) -> None:
    assert read_answer(reply(vector(sample(text)))).series == (Series({}, expected),)


def test_nan_is_a_number_here() -> None:
    (found,) = read_answer(reply(vector(sample("NaN")))).series
    assert math.isnan(found.value)


@given(st.floats(allow_nan=False))
def test_every_float_comes_through(value: float) -> None:
    text = {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, repr(value))
    assert read_answer(reply(vector(sample(text)))).series == (Series({}, value),)


@pytest.mark.parametrize("text", ["", "one", "1_000", " 1", "0x1", "nan", "Infinity", "1,5", "--1"])
def test_what_is_no_number(text: str) -> None:
    told = str(refusal(reply(vector(sample(text, pod="web-a")))))
    expected = f"the value of the series {{pod='web-a'}} is {text!r}, but must be a number"
    assert told == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"status":"success","data":{"resultType":"vector"}}', "`result`"),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"2"]}]}}',
            "metric",
        ),
        (vector({"metric": {}, "value": [1, 2.5]}), "Expected `str`, got `float`"),
        (vector({"metric": {}, "value": ["1", "2"]}), "Expected `float`, got `str`"),
        (vector({"metric": {}, "value": [1]}), "length 2"),
        (vector({"metric": {"pod": 5}, "value": [1, "2"]}), "Expected `str`, got `int`"),
        (b'{"data":5}', "is not what Prometheus sends"),
        (b"[]", "is not what Prometheus sends"),
        (b'{"status":"success","data":{"resultTy', "truncated"),
        (b'{"status":"\xff"}', "is not what Prometheus sends"),
        (b"[" * 100_000, "is not what Prometheus sends"),
        (b'{"status":"success"}', "the answer has neither data nor an error"),
    ],
)
def test_what_is_no_answer_of_prometheus(body: bytes, expected: str) -> None:
    told = str(refusal(reply(body)))
    assert expected in told
    assert "\n" not in told


@pytest.mark.parametrize("kind", ["scalar", "matrix", "string", "streams"])
def test_only_vectors_count(kind: str) -> None:
    data = {"resultType": kind, "result": [1794917409.853, "1"]}
    body = msgspec.json.encode({"status": "success", "data": data})
    assert str(refusal(reply(body))) == (
        f"the query gives a result of type '{kind}', but must give a vector"
    )


def test_histograms_have_no_number() -> None:
    histogram = {"metric": {"pod": "web-a"}, "histogram": [1794917409.853, {"count": "1"}]}
    told = str(refusal(reply(vector(histogram))))
    expected = "the series {pod='web-a'} has no value; a histogram cannot be compared"
    assert told == expected


def test_the_same_series_twice() -> None:
    body = vector(
        sample("1", pod="web-a", container="app"),
        sample("1", pod="web-b", container="app"),
        sample("2", container="app", pod="web-a"),
    )
    told = str(refusal(reply(body)))
    assert told == "the answer has the series {container='app', pod='web-a'} twice"


def test_labels_in_a_sentence_are_bounded() -> None:
    labels = {f"label_{number}": "x\n" * 50 for number in range(100)}
    told = str(refusal(reply(vector(sample("?", **labels)))))
    assert len(told) < 500
    assert "\n" not in told


@pytest.mark.parametrize(
    ("status", "kind", "body", "expected"),
    [
        (
            400, "application/json",
            b'{"status":"error","errorType":"bad_data","error":"1:5: parse error:\\n unclosed"}',
            "it answered 400: bad_data: 1:5: parse error: unclosed",
        ),
        (
            422, "application/json",
            (b'{"status":"error","errorType":"execution","error":"query processing would load too'
            b' many samples into memory"}'),
            "it answered 422: execution: query processing would load too many samples into memory",
        ),
        (500, "text/plain", b"oops\n", "it answered 500: 'oops'"),
        (500, "", b"", "it answered 500"),
        (
            404, "text/html", HTML,
            "it answered 404: '<html> <body><h1>Please log in</h1></body></html>'",
        ),
        (
            401, "text/plain", b"Unauthorized",
            "it answered 401, so the credentials are missing or wrong: 'Unauthorized'",
        ),
        (403, "", b"", "it answered 403, so the credentials are missing or wrong"),
        (
            200, "application/json",
            b'{"status":"error","errorType":"timeout","error":"query timed out"}',
            "timeout: query timed out",
        ),
        (
            200, "text/html", HTML,
            ("the answer is text/html instead of JSON, from a proxy or a login page perhaps: "
            "'<html> <body><h1>Please log in</h1></body></html>'"),
        ),
        (
            200, "", b"hello",
            ("the answer is of no known type instead of JSON, from a proxy or a login page "
            "perhaps: 'hello'"),
        ),
    ],
)  # fmt: skip
def test_refusals(status: int, kind: str, body: bytes, expected: str) -> None:
    found = refusal(reply(body, status, kind))
    assert str(found) == expected
    assert not isinstance(found, TransientError)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize(
    ("header", "expected"),
    [("", None), ("7", 7.0), (" 7 ", 7.0), ("-1", None), ("9999999999", None), ("soon", None)],
)
def test_what_may_pass(status: int, header: str, expected: float | None) -> None:
    found = refusal(reply(b"busy", status, "text/plain", retry_after=header))
    assert isinstance(found, TransientError)
    assert (str(found), found.retry_after) == (f"it answered {status}: 'busy'", expected)


@pytest.mark.parametrize("body", [b"", b"  \r\n"])
def test_an_empty_body_may_pass(body: bytes) -> None:
    found = refusal(reply(body))
    assert isinstance(found, TransientError)
    assert str(found) == "the answer is empty"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (
            "https://metrics.example.com/login?state=tOpSeCrEt",
            "'https://metrics.example.com/login'",
        ),
        ("", "nowhere"),
    ],
)
def test_redirects_are_not_followed(location: str, expected: str) -> None:
    told = str(refusal(reply(HTML, 302, "text/html", location=location)))
    assert told == (
        f"it sends us on to {expected} (302), and credentials do not follow; name the endpoint "
        "that answers itself"
    )


def test_warnings_are_kept() -> None:
    body = msgspec.json.encode(
        {
            "status": "success",
            "isPartial": True,
            "warnings": ["store\n10.0.0.1 is  away", "x" * 1000, *map(str, range(50))],
            "data": {"resultType": "vector", "result": []},
        }
    )
    found = read_answer(reply(body)).warnings
    assert found[:2] == ("it answered with a part of its data only", "store 10.0.0.1 is away")
    assert len(found) == 11
    assert max(map(len, found)) < 310


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Tue, 17 Nov 2026 12:08:36 GMT", 1794917316.0),
        ("", None),
        ("yesterday", None),
        ("Tue, 99 Nov 2026 12:08:36 GMT", None),
    ],
)
def test_the_servers_clock(date: str, expected: float | None) -> None:
    assert read_answer(reply(VECTOR, 200, "application/json", date=date)).clock == expected


@pytest.mark.parametrize("status", [200, 302, 401, 500, 503])
def test_secrets_are_not_repeated(status: int) -> None:
    """Some servers and proxies show the request in their error pages."""
    page = b"<html>you sent Authorization: Bearer s3cr3t-t0ken</html>"
    location = "https://example.com/s3cr3t-t0ken"
    found = refusal(reply(page, status, "text/html", location=location), "s3cr3t-t0ken")
    assert "s3cr3t" not in str(found)
    assert "***" in str(found)
