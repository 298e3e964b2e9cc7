"""What can be known of a run before a GPU is asked for. Pure."""
