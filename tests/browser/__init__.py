"""The page of `slackwater ui` in a real browser."""
