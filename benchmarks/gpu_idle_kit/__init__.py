"""Parts of `benchmarks/gpu_idle.py`: two arms to measure, and one way to see the server work.

    arms       (a) a BenchmarkRun; (b) by hand: server, then one Job per stage, then the server's end
    manifests  the objects of both
    wire       a packet socket in the node's network namespace: every packet from and to the
               server's pod, stamped by the kernel
    streams    packets -> TCP streams -> HTTP messages -> exchanges with first and last instant
    figures    exchanges -> seconds with and without a request
    report     where the time goes, for people

The server is the same in both arms and is not aware of being watched: no proxy, no sidecar, no
flag.
"""
