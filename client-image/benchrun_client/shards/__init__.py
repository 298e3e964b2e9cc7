"""One load with one record, sent by several processes of the client as one would send it."""
