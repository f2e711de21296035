"""Crane's objects: types, bounds and prose, and what no single field can say."""
