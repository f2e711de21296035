"""The page of `slackwater ui`."""
