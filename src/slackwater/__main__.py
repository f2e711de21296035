"""`python -m slackwater` is the console script. Ctrl-C during import prints no traceback."""

import sys

_INTERRUPTED = 130


def run() -> None:
    try:
        from slackwater.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
