"""Templates, predictions and nodes as the API server sends them, and as the manager reads them."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from slackwater.contract.crane.prediction import TEMPLATE_NAME, TimeSeriesPredictionSpec
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.contract.resources import TIME_SERIES_PREDICTIONS
from slackwater.kube.informer import InformerView
from slackwater.manager.cluster_view import (
    NODE_KIND,
    PREDICTION_KIND,
    TEMPLATE_KIND,
    ClusterView,
    watched_kinds,
)
from slackwater.manager.prediction_object import (
    MANAGED_BY,
    MANAGER,
    PredictionObject,
    TemplateObject,
    read_prediction_object,
    read_template_object,
)
from slackwater.status.api_objects import ClusterNode

KINDS = watched_kinds(SloConfigName())
#: The seed's, verbatim.
SEED = yaml.safe_load(
    (Path(__file__).parents[2] / "cluster" / "manifests" / "prediction-template.yaml").read_text()
)
SEED_TEXT: str = SEED["data"]["spec"]


def template(text: str | None = SEED_TEXT, namespace: str = "default") -> TemplateObject:
    document = {
        "metadata": {"name": TEMPLATE_NAME, "namespace": namespace, "uid": f"uid-{namespace}"},
        "data": {} if text is None else {"spec": text},
    }
    return read_template_object(msgspec.Raw(msgspec.json.encode(document)))


def node(name: str) -> ClusterNode:
    return ClusterNode(name, {}, uid=f"uid-of-{name}")


def owner(name: str, kind: str = "Node") -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True,
    }  # fmt: skip


def prediction(
    name: str,
    spec: TimeSeriesPredictionSpec | dict[str, Any],
    *,
    namespace: str = "default",
    managed: bool = True,
    owners: tuple[dict[str, Any], ...] = (),
    status: Any = None,
    generation: int = 1,
) -> PredictionObject:
    document = {
        "apiVersion": TIME_SERIES_PREDICTIONS.api_version,
        "kind": TIME_SERIES_PREDICTIONS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{namespace}-{name}",
            "generation": generation,
            "labels": {MANAGED_BY: MANAGER} if managed else {},
            "ownerReferences": list(owners),
        },
        "spec": msgspec.to_builtins(spec),
        **({} if status is None else {"status": msgspec.to_builtins(status)}),
    }
    return read_prediction_object(msgspec.Raw(msgspec.json.encode(document)))


def view(
    *nodes: str,
    templates: tuple[TemplateObject, ...] = (),
    predictions: tuple[PredictionObject, ...] = (),
) -> ClusterView:
    items: dict[Any, dict[str, Any]] = {
        NODE_KIND: {name: node(name) for name in nodes},
        TEMPLATE_KIND: {f"{each.namespace}/{each.name}": each for each in templates},
        PREDICTION_KIND: {each.key: each for each in predictions},
    }
    return ClusterView({kind: InformerView(items.get(kind, {}), synced=True) for kind in KINDS})
