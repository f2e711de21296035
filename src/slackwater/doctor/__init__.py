"""The program behind `slackwater doctor`: what this machine can do, what is wrong, what to do."""
