"""One load, sent by several processes of the client: as one process would send it, and told by one record.

sharing     whose request is whose
arrivals    when all of them are due
gate        where shard 0 waits for the others before every stage, and takes their parts after it
member      the other end of its connections
clock       what time it is at the gate
merging     the parts of a stage into one record
"""
