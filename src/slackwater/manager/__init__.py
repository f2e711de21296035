"""The cluster manager: watches policy objects and nodes; the leader keeps their status current."""
