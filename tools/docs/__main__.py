"""Builds the site: python -m tools.docs [--out FOLDER]. Broken links and warnings are errors.

Sphinx and its theme are in the dependency group `docs`, in an environment of its own that uv makes
of uv.lock; nothing else of the project needs them. The built pages ask no other host for anything.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.children import Children
from tools.console import say
from tools.docs.staging import StagingError, external_requests, stage
from tools.provision import ROOT, SetupError, cache_folder, provide_uv, trusted_certificates

OUT = ROOT / "build/docs"
_ENVIRONMENT = ("run", "--quiet", "--isolated", "--frozen", "--only-group", "docs")
#: No other Python than the one that is here.
_PYTHON = ("--python", sys.executable)


def build(uv: Path, out: Path) -> int:
    """The exit code of the first program that finds something wrong; what it is, is on stderr."""
    if out.exists():
        shutil.rmtree(out)
    with tempfile.TemporaryDirectory() as scratch:
        pages, trees = Path(scratch, "pages"), Path(scratch, "trees")
        pages.mkdir()
        stage(ROOT, pages)
        python = [str(uv), *_ENVIRONMENT, *_PYTHON, "python"]
        sphinx = ["-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
        folders = ["-c", str(ROOT / "tools/docs"), "-d", str(trees), str(pages), str(out)]
        checker = [str(ROOT / "tools/docs/check_openapi.py"), str(pages / "schemas/openapi.json")]
        wrong = run([*python, *checker]) or run([*python, *sphinx, *folders])
        if not wrong:
            # Under a name that stays: links to them in pages have a hash in theirs.
            shutil.copytree(pages / "schemas", out / "schemas")
        return wrong


def run(command: Sequence[str]) -> int:
    environ = {**os.environ, **trusted_certificates(os.environ)}
    # Of another environment that may be active uv would warn.
    environ.pop("VIRTUAL_ENV", None)
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="where the pages go; it is emptied")
    out = parser.parse_args(arguments).out.absolute()
    try:
        code = build(provide_uv(Children(ROOT), cache_folder(os.environ)), out)
    except (StagingError, SetupError) as error:
        say(f"docs: {error}", sys.stderr)
        return 1
    if code:
        say("docs: the site was not built; what is wrong is above", sys.stderr)
        return 1
    asked = external_requests([*out.rglob("*.html"), *out.rglob("*.css")])
    if asked:
        say("docs: pages fetch from elsewhere:\n" + "\n".join(asked), sys.stderr)
        return 1
    say(f"docs: {out}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
