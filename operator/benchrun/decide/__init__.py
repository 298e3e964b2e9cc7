"""(run, what is observed, now) -> what to do. One policy a file. Pure: the same input gives the same output."""
