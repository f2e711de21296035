"""The best-effort hog, as a program: one busy loop. It ends when its standard input does."""

import os
import sys
import threading


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    number = 0
    while True:
        number = (number * 1103515245 + 12345) & 0x7FFFFFFF


if __name__ == "__main__":
    main()
