"""Metrics that somebody else has: HTTP probes of the node and of pods, queries, files, pressure.

All of them are asked by background threads. The tick takes what is there.
"""
