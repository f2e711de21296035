"""What the rebalancer reads besides the API server: Prometheus, metrics.k8s.io and Kafka."""
