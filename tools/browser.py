"""The browser of the page's tests: Debian's Chromium, which Playwright drives.

python -m tools.browser check   fails with a sentence where there is none
"""

import shutil
import sys

from tools.debian import lacks

DEBIAN_PACKAGES = ("chromium",)
_NEEDS = {"chromium": "chromium"}


def main(arguments: list[str]) -> int:
    if arguments != ["check"]:
        print("usage: python -m tools.browser check", file=sys.stderr)
        return 2
    problem = lacks(_NEEDS, shutil.which)
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
