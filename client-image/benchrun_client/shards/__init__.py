"""One load, sent by several processes of the client as one process would send it, with one record.

sharing     whose request is whose, and when all of them are due
gate        where shard 0 waits for the others before every stage, and takes their parts after it
member      the other end of its connections
merging     the parts of a stage into one record
"""
