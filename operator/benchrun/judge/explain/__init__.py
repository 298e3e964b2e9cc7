"""Why requests waited and what limits a load point."""
