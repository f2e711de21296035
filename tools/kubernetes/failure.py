"""Owns the one way in which this package fails: a program cannot be had."""


class BuildError(Exception):
    """One sentence for the person: what is wrong and, where something helps, what to do."""
