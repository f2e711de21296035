"""Owns where a cluster's programs come from: a variable for each, else tools.kubernetes' cache."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.children import Children
from tools.cluster.failure import ClusterError
from tools.kubernetes.__main__ import ready_made
from tools.kubernetes.building import build
from tools.kubernetes.failure import BuildError
from tools.kubernetes.programs import variable_of
from tools.provision import ROOT, SetupError, cache_folder


def find_programs(
    names: Sequence[str], environ: Mapping[str, str], children: Children | None = None
) -> dict[str, Path]:
    """Builds what is neither named nor cached, which takes minutes and says so on stderr."""
    named = {name: environ.get(variable_of(name), "") for name in names}
    found = {name: Path(path) for name, path in named.items() if path}
    for name, path in found.items():
        if not os.access(path, os.X_OK):
            raise ClusterError(f"{variable_of(name)} is {str(path)!r}, which is no program")
    lacking = [name for name in names if name not in found]
    if lacking:
        workers = children or Children(ROOT)
        try:
            built = build(workers, lacking, cache_folder(environ), ready_made(environ))
        except (BuildError, SetupError) as error:
            raise ClusterError(str(error)) from error
        found |= dict(zip(lacking, built, strict=True))
    return found
