"""Replicas of `slackwater rebalance loop`, as processes of their own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from slackwater.cli.cluster_options import NAMESPACE
from tests.cluster.rebalance_stage import ANY_AGE, WORKLOAD, Stage
from tools.cluster.processes import wait_for


class Resident:
    """One replica, as a process of its own."""

    def __init__(
        self, stage: Stage, kubeconfig: Path, scene: str, identity: str, log: Path, *flags: str
    ) -> None:
        known = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME")}
        command = [
            *(sys.executable, "-m", "slackwater", "rebalance", "loop", WORKLOAD, "-n", scene),
            *("--kubeconfig", str(kubeconfig), "--identity", identity, "--listen", "127.0.0.1:0"),
            *("--prometheus-endpoint", stage.endpoint, "--lease-namespace", NAMESPACE),
            *("--interval", "10s", *ANY_AGE, *flags),
        ]
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, env=known, stdout=out, stderr=out)

    def entries(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def said(self, what: str) -> list[str]:
        return [each.get("because", "") for each in self.entries() if each["what"] == what]

    def results(self) -> list[str]:
        return [each.get("result", "") for each in self.entries()]

    def get(self, path: str) -> tuple[int, str]:
        """What it answers over HTTP."""
        wait_for("where it listens", lambda: bool(self.said("endpoint")))
        url = self.said("endpoint")[0].removeprefix("listening on ")
        try:
            with build_opener(ProxyHandler({})).open(url + path, timeout=300) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def end(self) -> None:
        """Its exit code is 0."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait() == 0, self.log.read_text()


@contextmanager
def resident(
    stage: Stage, kubeconfig: Path, scene: str, identity: str, folder: Path, *flags: str
) -> Iterator[Resident]:
    made = Resident(stage, kubeconfig, scene, identity, folder / f"{identity}.log", *flags)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
        made.process.wait()
