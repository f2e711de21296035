"""One broker on loopback that is its own controller (KRaft): begun, killed, begun again, ended.

Owns its folder and its process. Two listeners: plain, and TLS with a name and password where a
certificate is given. Everything is small and single: nothing here is how one would run Kafka.
"""

import base64
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.processes import LOOPBACK, Processes, free_ports, is_free
from tools.kafka.fetching import KafkaError

_NAME = "kafka"
#: Its own heap is 256 MB at most; the cheap compiler starts twice as fast as the good one.
_JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class Credentials:
    """For the listener behind TLS: PEM files, and who may come in."""

    certificate_chain: str
    private_key: str
    username: str
    password: str


class Broker:
    """Guards one broker's process and folder."""

    def __init__(
        self, folder: Path, archives: Path, credentials: Credentials | None = None
    ) -> None:
        self._folder = folder
        self._class_path = f"{archives}/*"
        self._credentials = credentials
        self._ports = free_ports(3)
        self._processes = Processes(folder / "logs")

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._ports[0]}"

    @property
    def secure_address(self) -> str:
        return f"{LOOPBACK}:{self._ports[2]}"

    def open(self) -> None:
        """Formats its folder, and waits until it listens."""
        settings = self._settings()
        settings.write_text(properties(self._folder, self._ports, self._credentials))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = (*_JAVA, "-cp", self._class_path, "kafka.tools.StorageTool")
        # One word: an id may begin with a dash.
        command = [*tool, "format", f"--cluster-id={cluster}", "--config", str(settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KafkaError(f"the broker's folder: {(done.stderr or done.stdout).strip()}")
        self.start()

    def start(self) -> None:
        """What it had when it was killed is still there."""
        main = ("-Xmx256m", "-cp", self._class_path, "kafka.Kafka")
        self._processes.start(_NAME, [*_JAVA, *main, str(self._settings())])
        self._processes.wait_until("Kafka", _NAME, self._listens)

    def kill(self) -> None:
        self._processes.kill(_NAME)

    def close(self) -> None:
        self._processes.kill_all()

    def _settings(self) -> Path:
        return self._folder / "server.properties"

    def _listens(self) -> bool:
        return not is_free(self._ports[0])


def properties(folder: Path, ports: list[int], credentials: Credentials | None) -> str:
    plain, controller, secure = ports
    listeners = {"PLAINTEXT": plain, "CONTROLLER": controller}
    if credentials is not None:
        listeners["SASL_SSL"] = secure
    rows = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        "listeners": ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items()),
        "log.dirs": f"{folder}/data",
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # One that was killed comes back only when its old life has run out: 9 s, if not told.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
    }
    if credentials is not None:
        rows |= secure_rows(credentials)
    return "".join(f"{key}={value}\n" for key, value in rows.items())


def secure_rows(credentials: Credentials) -> dict[str, str]:
    """In a properties file a value of several lines is one with \\n."""
    listener = "listener.name.sasl_ssl"
    user = f'user_{credentials.username}="{credentials.password}"'
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        f"{listener}.ssl.keystore.type": "PEM",
        f"{listener}.ssl.keystore.certificate.chain": one_line(credentials.certificate_chain),
        f"{listener}.ssl.keystore.key": one_line(credentials.private_key),
        f"{listener}.sasl.enabled.mechanisms": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": f"{login} required {user};",
    }


def one_line(pem: str) -> str:
    return pem.strip().replace("\n", "\\n")
