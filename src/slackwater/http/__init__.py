"""HTTP client side, for the API server and Prometheus: connections, TLS, proxies, deadlines."""
