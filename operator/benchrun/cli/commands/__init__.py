"""The commands of `benchrun`, one a file: `add_options` declares the options, `run` executes."""
