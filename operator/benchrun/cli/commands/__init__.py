"""The commands of `benchrun`, one a file: `add_parser` says what it takes, `run` does it."""
