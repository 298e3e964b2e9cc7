"""Two configurations side by side: what changed, by how much, and whether that is more than noise.
Pure."""
