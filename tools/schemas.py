"""Writes docs/schemas, JSON Schema of our files and OpenAPI of the socket: python -m tools.schemas.

Both are made of the Structs that read and answer; a unit test fails while a file differs, and
holds real answers against the OpenAPI document.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from slackwater import __version__
from slackwater.agent.endpoint_server import SOCKET_ORDERS, SOCKET_ROUTES, AgentHealth
from slackwater.agent.shared_state import ReleaseDone
from slackwater.cli.schema import FileKind, render_schema
from slackwater.record.cpu_map import CpuMap
from slackwater.record.explanation import Explanation
from slackwater.record.overview import Overview
from slackwater.record.recording import CONTENT_TYPE
from tools.console import say
from tools.provision import ROOT

FOLDER = ROOT / "docs/schemas"
OPENAPI = "openapi.json"
_REFERENCE = "#/components/schemas/{name}"


class Failure(msgspec.Struct, frozen=True):
    """Every answer that is not what was asked for: one sentence."""

    error: str


class Answer(msgspec.Struct, frozen=True):
    """What one route answers. `failures` are the statuses besides 200, with what each means; the
    body of each is `failed`."""

    does: str
    kind: Any = str
    content_type: str = "application/json"
    parameter: str = ""
    failures: Mapping[int, str] = {}
    failed: Any = Failure


_HEALTH = {503: "It is not, with the reason."}
ANSWERS: Mapping[str, Answer] = {
    "/metrics": Answer(
        "Metrics in Prometheus' text format, or OpenMetrics where that is accepted.",
        content_type="text/plain",
    ),
    "/healthz": Answer(
        "Whether the agent's loop runs.", AgentHealth, failures=_HEALTH, failed=AgentHealth
    ),
    "/readyz": Answer(
        "Whether it decides, and what problems there are.",
        AgentHealth,
        failures=_HEALTH,
        failed=AgentHealth,
    ),
    "/v1/explain": Answer(
        "Why each value is what it is: one object for each knob.",
        list[Explanation],
        parameter="A pod's name, namespace/name or uid, a tier, node, or besteffort/* for a tier "
        "with its pods; nothing for everything.",
        failures={404: "There is no such target."},
    ),
    "/v1/top": Answer("The node, its tiers, pods and last changes.", Overview),
    "/v1/cpus": Answer(
        "Who runs on which CPU.", CpuMap, failures={503: "The machine's CPUs cannot be read."}
    ),
    "/v1/ticks": Answer(
        "The kept ticks as a recording, for `slackwater replay`: JSON lines.",
        content_type=CONTENT_TYPE,
        failures={503: "There was no tick yet."},
    ),
    "/v1/release": Answer(
        "Puts every value back, and pauses the agent until `slackwater resume`.",
        ReleaseDone,
        failures={504: "No round came in time; the next one releases."},
    ),
}


def openapi() -> dict[str, Any]:
    kinds = [each.kind for each in ANSWERS.values()] + [Failure]
    shapes, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    bodies = dict(zip(ANSWERS, shapes, strict=False))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The agent's socket",
            "version": __version__,
            "description": "HTTP on the unix socket agent.sock in the agent's state folder, "
            "/run/slackwater, for root and the agent's own user. Over TCP there are /metrics, "
            "/healthz and /readyz alone.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {path: _path(path, bodies[path]) for path in (*SOCKET_ROUTES, *SOCKET_ORDERS)},
        "components": {"schemas": components},
    }


def _path(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    answer = ANSWERS[path]
    operation: dict[str, Any] = {
        "summary": answer.does,
        "operationId": path.strip("/").replace("/", "_"),
        "responses": {"200": _response("As asked.", answer.content_type, body)},
    }
    if answer.parameter:
        operation["parameters"] = [
            {
                "name": "target",
                "in": "query",
                "description": answer.parameter,
                "schema": {"type": "string", "default": ""},
            }
        ]
    failed = {"$ref": _REFERENCE.format(name=answer.failed.__name__)}
    for status, means in answer.failures.items():
        operation["responses"][str(status)] = _response(means, "application/json", failed)
    return {"post" if path in SOCKET_ORDERS else "get": operation}


def _response(means: str, content_type: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": means, "content": {content_type: {"schema": body}}}


def files() -> dict[str, str]:
    """Each file's content by its name."""
    made = {f"{each.value}.json": render_schema(each) for each in FileKind}
    return {**made, OPENAPI: json.dumps(openapi(), indent=2, ensure_ascii=False) + "\n"}


def main(_arguments: Sequence[str]) -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, content in files().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
        say(f"schemas: wrote docs/schemas/{name}", sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
