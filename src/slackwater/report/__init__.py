"""What a cluster's CPU was used for, and what of it could be sold: `slackwater report`."""
