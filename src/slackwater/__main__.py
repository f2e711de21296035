"""`python -m slackwater` is the console script."""

from slackwater.cli.main import main

if __name__ == "__main__":
    main()
