"""What `benchmarks/gpu_idle.py` consists of: two ways to the same measurement, and one way to see
when the server works.

    arms       (a) a BenchmarkRun; (b) server, then one Job a stage, then the server's end, as people do it by hand
    manifests  the objects of both
    wire       a packet socket in the node's network namespace: every packet from and to the server's pod, stamped by the kernel
    streams    packets -> TCP streams -> HTTP messages -> exchanges with their first and last instant
    figures    exchanges -> seconds with and without a request
    report     where the time goes, for people

The server is the same in both arms and knows nothing of being watched: no proxy, no sidecar, no
flag."""
