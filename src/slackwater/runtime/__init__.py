"""What every long-running program needs: wake-ups, signals, health, leadership, HTTP, the loop."""
