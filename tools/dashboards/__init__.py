"""Grafana dashboards of the chart: what they show (pages), and how Grafana writes it (grafana)."""
