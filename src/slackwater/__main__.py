"""`python -m slackwater` is the console script. Ctrl-C during import prints no traceback."""

import sys

_INTERRUPTED = 130


def run() -> None:
    try:
        from slackwater.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def run_plugin() -> None:
    """`kubectl-slackwater`, which kubectl runs for `kubectl slackwater`."""
    try:
        from slackwater.cli.kubectl_plugin import PROGRAM, use_plugin_help
        from slackwater.cli.main import main

        use_plugin_help()
        main(PROGRAM)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def complete_plugin() -> None:
    """`kubectl_complete-slackwater`, which kubectl runs with the words so far."""
    try:
        from slackwater.cli.kubectl_plugin import complete

        print(complete(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
