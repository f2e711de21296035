"""Foreign objects as typed values: one module, or a few of one name, for each foreign dialect."""
