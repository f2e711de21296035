"""The only writers: cgroup files, unit properties and the ledger of what was touched."""
