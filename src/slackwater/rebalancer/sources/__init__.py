"""What a round reads: the API server, Prometheus or metrics.k8s.io, and Kafka."""
