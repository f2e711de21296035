"""Range queries: what is sent, and what comes back, well or badly formed."""

import math
from urllib.parse import parse_qs

import msgspec
import pytest

from slackwater.http.prometheus_api import (
    PrometheusError,
    RangeResult,
    SeriesRange,
    read_range_answer,
)
from slackwater.http.prometheus_client import PrometheusClient
from tests.unit.http.prometheus_world import settings_for
from tests.unit.http.test_prometheus_api import reply
from tests.unit.kube.byte_server import Request, Wire, serving


def matrix(*rows: object) -> bytes:
    result = {"resultType": "matrix", "result": rows}
    return msgspec.json.encode({"status": "success", "data": result})


def row(*values: object, **labels: str) -> dict[str, object]:
    return {"metric": labels, "values": [[60 * k, each] for k, each in enumerate(values)]}


def test_a_matrix() -> None:
    found = read_range_answer(reply(matrix(row("1.5", "NaN", "+Inf", instance="a"), row())))
    first, empty = found.series
    assert (first.labels, first.times) == ({"instance": "a"}, [0, 60, 120])
    assert first.values[0] == 1.5
    assert math.isnan(first.values[1])
    assert first.values[2] == math.inf
    assert empty == SeriesRange({}, [], [])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            b'{"status":"success","data":{"resultType":"vector","result":[]}}',
            "the query gives a result of type 'vector', but must give a matrix",
        ),
        (matrix({"metric": {}}), "the series {} has no values; a histogram cannot be compared"),
        (matrix(row("1"), row("2")), "the answer has the series {} twice"),
        (matrix(row("1_0")), "the value of the series {} is '1_0', but must be a number"),
        (matrix(row(1.0)), "the answer's matrix cannot be read"),
    ],
)
def test_a_bad_matrix_is_one_clause(body: bytes, said: str) -> None:
    with pytest.raises(PrometheusError) as caught:
        read_range_answer(reply(body))
    assert str(caught.value).startswith(said)


def test_what_is_asked() -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.answer(matrix())

    with serving(answer) as server:
        client = PrometheusClient(settings_for(server.port))
        assert client.ask_range("up", 60.0, 180.0, 60.0).series == RangeResult(()).series
    (request,) = server.requests
    assert request.target == "/api/v1/query_range"
    assert parse_qs(request.body.decode()) == {
        "query": ["up"],
        "start": ["60.000"],
        "end": ["180.000"],
        "step": ["60.000"],
    }
