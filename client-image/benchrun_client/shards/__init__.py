"""One load, sent by several processes of the client as one process would send it, with one
record."""
