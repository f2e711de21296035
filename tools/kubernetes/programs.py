"""Which programs can be built, of which pinned module, and what makes two builds the same.

Owns the list and the key under which a finished program is kept. Builds nothing.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tools.kubernetes.toolchain import ENVIRONMENT, Toolchain

_MODULES = Path(__file__).parent / "modules"
_MODULE_FILES = ("go.mod", "go.sum", "tools.go")
# How much of the hash is enough to tell apart a handful of builds of one user.
_HASH_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Module:
    """Programs of one Go module, pinned by a module of ours.

    `programs` are pairs of a name and a Go package; tools.go imports each package, so that go.sum
    knows what it is made of. `stamps` are what the linker writes into variables of the sources.
    """

    name: str
    version: str
    programs: tuple[tuple[str, str], ...]
    stamps: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return _MODULES / self.name

    def package(self, program: str) -> str:
        return dict(self.programs)[program]


def _stamps(package: str, facts: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{package}.{name}={value}" for name, value in facts.items())


# Without it the version would be v0.0.0, and clients misbehave.
KUBERNETES = Module(
    "kubernetes",
    "v1.34.4",
    tuple(
        (name, f"k8s.io/kubernetes/cmd/{name}")
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
            "kubelet",
        )
    ),
    _stamps(
        "k8s.io/component-base/version",
        {"gitVersion": "v1.34.4", "gitMajor": "1", "gitMinor": "34"},
    ),
)
ETCD = Module("etcd", "v3.6.4", (("etcd", "go.etcd.io/etcd/server/v3"),))
# Helm's own Makefile stamps these; without them a template sees Kubernetes 1.20.
_HELMS_KUBERNETES = {"k8sVersionMajor": "1", "k8sVersionMinor": "34"}
HELM = Module(
    "helm",
    "v3.19.0",
    (("helm", "helm.sh/helm/v3/cmd/helm"),),
    (
        *_stamps("helm.sh/helm/v3/internal/version", {"version": "v3.19.0"}),
        *_stamps("helm.sh/helm/v3/pkg/lint/rules", _HELMS_KUBERNETES),
        *_stamps("helm.sh/helm/v3/pkg/chartutil", _HELMS_KUBERNETES),
    ),
)
KWOK = Module(
    "kwok",
    "v0.6.1",
    (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),),
    _stamps("sigs.k8s.io/kwok/pkg/consts", {"Version": "v0.6.1"}),
)
# Kubernetes before those that are made of its parts in the same versions, and so compiled already.
MODULES: tuple[Module, ...] = (ETCD, KUBERNETES, HELM, KWOK)
#: The module of each program.
PROGRAMS: dict[str, Module] = {name: module for module in MODULES for name, _ in module.programs}


def build_flags(module: Module) -> tuple[str, ...]:
    """Not -trimpath: with it Go compiles a replaced module once for each version that is asked for,
    though the sources are the same."""
    stamps = "".join(f" -X {stamp}" for stamp in module.stamps)
    return ("-buildvcs=false", f"-ldflags=-s -w{stamps}")


def key(toolchain: Toolchain, module: Module, folder: Path | None = None) -> str:
    """The same for the same sources, toolchain and flags."""
    settings = (f"{name}={value}" for name, value in ENVIRONMENT.items())
    said = (toolchain.version, *build_flags(module), *settings)
    hashed = hashlib.sha256("\0".join(said).encode())
    for name in _MODULE_FILES:
        content = ((folder or module.folder) / name).read_bytes()
        hashed.update(name.encode() + hashlib.sha256(content).digest())
    return hashed.hexdigest()[:_HASH_DIGITS]


def kept_program(cache: Path, name: str, toolchain: Toolchain) -> Path:
    """Where a finished program is; what is there is whole."""
    module = PROGRAMS[name]
    return cache / "kubernetes" / f"{module.version}-{key(toolchain, module)}" / name


def compiled_name(package: str) -> str:
    """What `go build` calls a program: the package's last part that is no version."""
    *_, before, last = package.split("/")
    return before if last[:1] == "v" and last[1:].isdecimal() else last


def variable_of(program: str) -> str:
    """`kube-apiserver` is SLACKWATER_KUBE_APISERVER to the tests."""
    return f"SLACKWATER_{program.upper().replace('-', '_')}"
