"""Owns the one way in which this package fails: no machine ran, or none came back.

A failing command is not a failure here: its exit code is a result like any other.
"""

# Above what pytest (0 to 5) and most programs return, below the shell's own codes (126 and up).
NO_RESULT = 125


class VmError(Exception):
    """One sentence for the user: what is wrong and, where something helps, what to do."""
