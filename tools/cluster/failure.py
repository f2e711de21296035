"""Owns the one way in which this package fails: a cluster cannot be had, or did not do as told."""


class ClusterError(Exception):
    """One sentence for the person, and the last words of the program that is to blame."""
