"""Pure control pieces: how a value may move from one tick to the next."""
