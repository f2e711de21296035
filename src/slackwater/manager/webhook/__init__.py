"""The webhook for writes of a Node's status: reviews, certificates, the HTTPS server."""
