"""Forecasts of CPU usage from its own past: pure functions on arrays.

The manager and `slackwater forecast` import this package and nothing else does: it needs numpy,
which is the extra `forecast` and no part of what runs on a node (docs/adr/0022).
"""
