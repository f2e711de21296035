"""Says what is wrong with bills of materials by CycloneDX's own schema: FILES. Exit code 1: wrong.

Run by tools.release in an environment of its own: the library and what it needs are in the
dependency group `release`, and nobody else has them.
"""

import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def main(paths: list[str]) -> int:
    validator = JsonStrictValidator(SchemaVersion.V1_5)
    wrong = 0
    for path in paths:
        error = validator.validate_str(Path(path).read_text())
        if error is not None:
            sys.stderr.write(f"{path}: {str(error)[:500]}\n")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
