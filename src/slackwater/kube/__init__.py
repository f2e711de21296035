"""HTTP to the API server: list, watch, apply, evict, lease, events. One layer for every program."""
