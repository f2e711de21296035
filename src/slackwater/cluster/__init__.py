"""The cluster manager: list and watch, a pure function, apply. And the cluster at a glance."""
