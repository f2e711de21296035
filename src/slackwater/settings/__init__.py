"""Our own settings apart from the policies': agent, rebalancer, and how a setting is listed."""
