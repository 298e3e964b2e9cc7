"""The outside world: the API server, metrics pages, clients and the clock. Each behind a Protocol, so that tests inject."""
