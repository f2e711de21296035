"""Foreign objects as typed values, and the one schema by which everything is read."""
