"""Owns the one way in which this package fails: the image cannot be had."""


class ImageError(Exception):
    """One sentence for the person: what is wrong and, where something helps, what to do."""
