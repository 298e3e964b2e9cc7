"""The commands of `benchrun`, one a file: `add_options` says what it takes, `run` does it."""
