"""The outside world: the API server, metrics endpoints, clients, and the judge process."""
