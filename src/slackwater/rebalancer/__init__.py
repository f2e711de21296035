"""The rebalancer: rotates the pods of a workload whose load is skewed, by the HPA's own target."""
