"""Agents of other nodes, asked through the API server with the user's own rights."""
