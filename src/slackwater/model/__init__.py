"""Values only: what a node, a cgroup and a change are. No clock, no file, no socket."""
