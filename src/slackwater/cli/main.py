"""The console script."""


def main() -> None:
    raise SystemExit(0)
