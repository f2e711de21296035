"""The OpenAPI document of the agent's socket: each route is in it, real answers are as it says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from slackwater.agent.endpoint_server import SOCKET_ORDERS, SOCKET_ROUTES, respond_on_socket
from slackwater.model.units import Micros
from slackwater.runtime.http_exchange import Request, Response
from slackwater.simulation.scenario_file import read_scenario
from slackwater.simulation.simulation_run import Simulation
from tools.provision import ROOT
from tools.schemas import openapi

DOCUMENT = openapi()


@pytest.fixture(scope="module", params=["cpus", "rule"])
def simulation(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Simulation]:
    scenario = read_scenario(str(ROOT / f"docs/samples/{request.param}.yaml"))
    made = Simulation(scenario, str(tmp_path_factory.mktemp("ledger")))
    made.run(lambda at, _: made.shared.request_detail(at))
    yield made
    made.close()


def asked(simulation: Simulation, target: str, method: str = "GET") -> Response:
    return respond_on_socket(simulation.shared, Request(method, target), simulation.kernel.now)


def check(response: Response, path: str, method: str = "get") -> None:
    told = DOCUMENT["paths"][path][method]["responses"][str(response.status)]["content"]
    ((content_type, body),) = told.items()
    assert response.content_type.startswith(content_type)
    if content_type == "application/json":
        schema = {**body["schema"], "components": DOCUMENT["components"]}
        Draft202012Validator(schema).validate(json.loads(response.body))


def test_every_route_is_told_with_its_method() -> None:
    paths: dict[str, dict[str, object]] = DOCUMENT["paths"]
    assert set(paths) == {*SOCKET_ROUTES, *SOCKET_ORDERS}
    assert {path for path, each in paths.items() if "post" in each} == set(SOCKET_ORDERS)
    assert {path for path, each in paths.items() if "get" in each} == set(SOCKET_ROUTES)


@pytest.mark.parametrize("path", sorted(SOCKET_ROUTES))
def test_a_real_answer_is_as_it_says(simulation: Simulation, path: str) -> None:
    check(asked(simulation, path), path)


def test_one_knob_explained(simulation: Simulation) -> None:
    answer = asked(simulation, "/v1/explain?target=burstable")
    assert answer.status == 200
    check(answer, "/v1/explain")


def test_a_target_that_is_not_there(simulation: Simulation) -> None:
    answer = asked(simulation, "/v1/explain?target=nobody")
    assert answer.status == 404
    check(answer, "/v1/explain")


def test_a_wrong_answer_would_be_found() -> None:
    wrong = Response(200, "application/json", b'{"kind": 1}')
    with pytest.raises(Exception, match="is not of type"):
        check(wrong, "/v1/cpus")


def test_before_the_first_tick(tmp_path: Path) -> None:
    young = Simulation(read_scenario(str(ROOT / "docs/samples/cpus.yaml")), str(tmp_path))
    try:
        young.shared.request_detail(Micros(-1))
        for path in ("/v1/ticks", "/readyz"):
            answer = asked(young, path)
            assert answer.status == 503
            check(answer, path)
    finally:
        young.close()


def test_an_order_that_nobody_carries_out_in_time(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulation that is over has no further round."""
    monkeypatch.setattr("slackwater.agent.endpoint_server.RELEASE_PATIENCE", 0.0)
    answer = asked(simulation, "/v1/release", "POST")
    assert answer.status == 504
    check(answer, "/v1/release", "post")
