"""Reports: a run's status made into what a person or a pipeline reads. Pure."""
