"""Owns the one way in which this package fails: there is no broker to be had."""


class KafkaError(Exception):
    """One sentence for the person: what is wrong and, where something helps, what to do."""
