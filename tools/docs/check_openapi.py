"""Says what is wrong with an OpenAPI document by the specification: FILE. Exit code 1: wrong.

Run by tools.docs in the environment of the dependency group `docs`, which has the validator.
"""

import json
import sys
from pathlib import Path

from openapi_spec_validator import OpenAPIV31SpecValidator


def main(path: str) -> int:
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    errors = list(OpenAPIV31SpecValidator(document).iter_errors())
    for each in errors:
        sys.stderr.write(f"{path}: {'/'.join(map(str, each.path))}: {each.message}\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
