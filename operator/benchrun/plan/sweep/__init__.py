"""A sweep's spec -> variants -> runs in the order in which they are started."""
