"""The commands of `benchrun`, one a file: `add_options` declares its options, `run` executes it."""
