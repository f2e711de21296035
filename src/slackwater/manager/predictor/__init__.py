"""Asks for the history of what is to be predicted, and predicts it, off the manager's loop."""
