"""The cluster's objects: from a folder or from the API server, and matched with the groups."""
