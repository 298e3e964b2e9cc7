"""What cluster tests share: a namespace to work in, and waiting for conditions instead of for
time."""
