"""What `slackwater status` shows."""
