"""A server on loopback that answers as Prometheus does, by parts of the query's text."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from tests.unit.kube.byte_server import ByteServer, Request, Wire, serving

#: From the times that are asked for, one after another, to a series' values.
Curve = Callable[[float], float]
#: Labels and curve of each series, by a part of the query; the first that fits counts.
Answers = Mapping[str, list[tuple[dict[str, str], Curve]]]


def asked(request: Request) -> dict[str, str]:
    """The form."""
    return {key: values[0] for key, values in parse_qs(request.body.decode()).items()}


@contextmanager
def served_prometheus(answers: Answers, refused: Mapping[str, str] = {}) -> Iterator[ByteServer]:
    """`refused`: what is said to queries with that part, in place of an answer."""

    def answer(request: Request, wire: Wire) -> None:
        form = asked(request)
        for part, told in refused.items():
            if part in form["query"]:
                wire.json({"status": "error", "errorType": "execution", "error": told}, 422)
                return
        series = next((found for part, found in answers.items() if part in form["query"]), [])
        if request.path.endswith("query_range"):
            wire.json(_matrix(form, series))
        else:
            at = float(form["time"])
            rows = [
                {"metric": labels, "value": [at, _spelled(curve(at))]} for labels, curve in series
            ]
            wire.json({"status": "success", "data": {"resultType": "vector", "result": rows}})

    with serving(answer) as server:
        yield server


def _matrix(form: dict[str, str], series: list[tuple[dict[str, str], Curve]]) -> dict[str, Any]:
    start, end, step = (float(form[name]) for name in ("start", "end", "step"))
    times = [start + step * place for place in range(int((end - start) / step + 1e-6) + 1)]
    rows = [
        {"metric": labels, "values": [[at, _spelled(curve(at))] for at in times]}
        for labels, curve in series
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": rows}}


def _spelled(value: float) -> str:
    """As Go does."""
    return "NaN" if math.isnan(value) else f"{value:.12g}"


def queries_of(server: ByteServer) -> list[str]:
    return [asked(each)["query"] for each in server.requests]


def size_of(form: Mapping[str, str]) -> int:
    """Points of a range query."""
    return round((float(form["end"]) - float(form["start"])) / float(form["step"])) + 1
