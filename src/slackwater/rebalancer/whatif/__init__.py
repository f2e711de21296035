"""Simulates a day of a workload with and without rotation. The loop does not use it."""
