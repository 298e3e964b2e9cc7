"""A spec made into stages, and stages and servers made into manifests, role by role. Pure."""
