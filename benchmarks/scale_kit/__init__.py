"""A thousand runs at once: what `benchmarks/scale.py` needs to measure the operator alone.

The parts are those of `runs_kit`: a counting proxy, real controllers, and every pod played by the
benchmark's own process. kwok is not used: it writes what a kubelet would, but nothing answers at
the addresses of its pods, and here a client hands out records and a server has a metrics page.

Namespaces, of which the operator works in the first three:

    many   the runs that are measured; half of them get a GPU at first, then the others
    few    the other tenant, whose servers are released meanwhile
    old    runs that have ended, there when the operator is restarted
    bare   what the script creates that the operator is compared with
"""
