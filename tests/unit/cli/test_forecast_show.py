"""`slackwater forecast show`: what is predicted and sold, and why nothing is."""

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.contract.node_report import NodeReport
from tests.unit.cli.served import served, slackwater
from tests.unit.cli.test_status import cluster, kubeconfig, listing

pytestmark = pytest.mark.long

NODE = "/api/v1/nodes/n1"
TSP = "/apis/prediction.crane.io/v1alpha1/namespaces/default/timeseriespredictions/noderesource-n1"
PODS = "/api/v1/pods"


def node(**allocatable: str) -> dict[str, Any]:
    report = NodeReport(policies={"oversold": "switched off"}).text()
    return {
        "metadata": {"name": "n1", "annotations": {"slackwater.io/report": report}},
        "status": {"allocatable": {"cpu": "4", **allocatable}},
    }


def pod(phase: str) -> dict[str, Any]:
    requests = {"requests": {"gocrane.io/cpu": "2"}}
    return {
        "metadata": {"name": phase.lower()},
        "spec": {"containers": [{"resources": requests}]},
        "status": {"phase": phase},
    }


def prediction(status: str = "True", message: str = "") -> dict[str, Any]:
    now = int(time.time())
    samples = [
        {"timestamp": now + 60 * k, "value": "2.00000" if k <= 90 else "3.00000"}
        for k in range(121)
    ]
    metric = {
        "resourceIdentifier": "cpu",
        "ready": True,
        "estimator": "fft",
        "estimatorSince": "2026-11-17T10:00:00Z",
        "lastDayError": "0.20000",
        "predictedAt": "2026-11-18T07:00:00Z",
        "message": message,
        "prediction": [{"samples": samples}],
    }
    condition = {
        "type": "Ready", "status": status, "reason": "PredictFailed", "message": message,
        "lastTransitionTime": "2026-11-18T07:00:00Z",
    }  # fmt: skip
    return {
        "apiVersion": "prediction.crane.io/v1alpha1",
        "kind": "TimeSeriesPrediction",
        "metadata": {"name": "noderesource-n1", "namespace": "default"},
        "spec": {
            "targetRef": {"name": "n1", "kind": "Node"},
            "predictionWindowSeconds": 3600,
            "predictionMetrics": [
                {
                    "resourceIdentifier": "cpu", "type": "ResourceQuery", "resourceQuery": "cpu",
                    "algorithm": {"algorithmType": "dsp"},
                }
            ],
        },
        "status": {"predictionMetrics": [metric], "conditions": [condition]},
    }  # fmt: skip


def show(tmp_path: Path, there: dict[str, Any], *arguments: str) -> tuple[int, str, str]:
    with served(cluster(**there)) as server:
        file = kubeconfig(tmp_path, f"http://{server.address}")
        done = slackwater("forecast", "show", "n1", "--kubeconfig", file, *arguments)
    return done.returncode, done.stdout, done.stderr


def test_what_is_predicted_and_sold(tmp_path: Path) -> None:
    there = {
        NODE: node(**{"gocrane.io/cpu": "3"}),
        TSP: prediction(),
        PODS: listing(pod("Running"), pod("Succeeded")),
    }
    code, out, err = show(tmp_path, there)
    assert (code, err) == (0, "")
    assert "cpu peak of the next 1 h 2.00, of the 1 h after it 3.00, of 4.00 allocatable" in out
    assert "by fft for " in out
    assert "off by 20.0% on the last day" in out
    assert "gocrane.io/cpu 3.00 offered, 2.00 of it allocated" in out
    assert "█" in out or "▅" in out


def test_scripts_get_every_number(tmp_path: Path) -> None:
    code, out, _ = show(tmp_path, {NODE: node(), TSP: prediction()}, "-o", "json")
    told = json.loads(out)
    assert (code, told["kind"], told["forecast"]["prediction"]) == (
        0, "NodeForecast", "default/noderesource-n1",
    )  # fmt: skip
    [metric] = told["forecast"]["metrics"]
    assert (metric["estimator"], metric["lastDayError"], len(metric["samples"])) == (
        "fft",
        0.2,
        121,
    )
    assert told["forecast"]["whyNotSold"] == "switched off"
    assert msgspec.json.decode(out)["history"] == {}


def test_without_a_prediction_it_says_why(tmp_path: Path) -> None:
    code, out, _ = show(tmp_path, {NODE: node()})
    assert code == 1
    assert "there is no prediction of it" in out
    assert "sold nothing: switched off" in out


def test_old_samples_come_with_the_reason(tmp_path: Path) -> None:
    there = {NODE: node(), TSP: prediction("False", "cpu: nobody answers")}
    code, out, _ = show(tmp_path, there)
    assert code == 1
    assert "cpu: nobody answers" in out


def test_no_such_node(tmp_path: Path) -> None:
    code, out, err = show(tmp_path, {})
    assert (code, out) == (1, "")
    assert err.startswith("slackwater: ")


def test_an_amplified_node_is_shown_as_the_machine_counts_it(tmp_path: Path) -> None:
    """What is predicted counts CPUs of the machine; what is offered counts normalized ones."""
    amplified = node(**{"kubernetes.io/batch-cpu": "4500"})
    raw = {
        "node.koordinator.sh/raw-allocatable": '{"cpu":"2500m"}',
        "node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.60}',
    }
    amplified["metadata"]["annotations"] |= raw
    code, out, _ = show(tmp_path, {NODE: amplified, TSP: prediction()})
    assert code == 0
    assert "of 2.50 allocatable" in out
    assert "kubernetes.io/batch-cpu 4500m offered, 0m of it allocated" in out


def test_samples_that_are_none_are_one_sentence(tmp_path: Path) -> None:
    """Agents use none of them either."""
    odd = prediction()
    [metric] = odd["status"]["predictionMetrics"]
    metric["prediction"][0]["samples"][5]["value"] = "much"
    metric["lastDayError"] = "little"
    _, out, err = show(tmp_path, {NODE: node(), TSP: odd})
    assert err == ""
    assert "cannot be used: a sample of cpu is 'much', but must be a number from 0 on" in out
    assert "peak of the next 1 h none" in out


def test_a_prediction_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    odd = prediction()
    odd["status"]["predictionMetrics"] = "none"
    code, out, err = show(tmp_path, {NODE: node(), TSP: odd})
    assert (code, out) == (1, "")
    assert err.startswith("slackwater: TimeSeriesPrediction default/noderesource-n1 cannot be read")
    assert err.count("\n") == 1


def test_of_several_series_the_largest_counts_as_for_agents(tmp_path: Path) -> None:
    several = prediction()
    [metric] = several["status"]["predictionMetrics"]
    now = int(time.time())
    low = [{"timestamp": each["timestamp"], "value": "1.50000"} for each in
           metric["prediction"][0]["samples"]]  # fmt: skip
    metric["prediction"].append({"samples": low})
    _, out, _ = show(tmp_path, {NODE: node(), TSP: several}, "-o", "json")
    [found] = json.loads(out)["forecast"]["metrics"]
    assert (found["nextPeak"], found["followingPeak"]) == (2.0, 3.0)
    assert found["samples"][0][0] >= now
