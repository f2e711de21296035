"""The entry point of setup: which Python will do, and what each make target needs.

Refuses what the machine's administrator must decide: it takes no root by itself, and packages that
it cannot install are told and left out. This file and `tools/__init__.py` keep to a syntax that any
Python 3.6 can read, so that an old interpreter answers with a sentence and not with a SyntaxError;
everything newer is imported after that answer.
"""

import sys

OLDEST_PYTHON = (3, 11)
PROFILES = ("check", "cluster", "demo", "test")


def complaint_about_python(version: "tuple[int, ...]", executable: str) -> str:
    """One sentence for an interpreter that is too old, nothing for one that will do."""
    if version[:2] >= OLDEST_PYTHON:
        return ""
    wanted = ".".join(map(str, OLDEST_PYTHON))
    found = ".".join(map(str, version))
    return (
        f"setup: Slackwater needs Python {wanted} or newer and {executable} is {found}; "
        f"name a newer one, for example: make test PYTHON=python{wanted}"
    )


def main(arguments: "list[str]") -> int:
    complaint = complaint_about_python(sys.version_info[:3], sys.executable)
    if complaint:
        print(complaint, file=sys.stderr)
        return 2
    if len(arguments) != 1 or arguments[0] not in PROFILES:
        print("usage: python3 -m tools.setup " + "|".join(PROFILES), file=sys.stderr)
        return 2
    from tools.provision import provide

    return provide(arguments[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
