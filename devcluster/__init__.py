"""A real one-node Kubernetes on one Linux machine, without a VM, container engine or registry.

`python3 devcluster up` brings it up, `python3 devcluster down` removes every trace of it. The
package needs nothing but the standard library, because it runs before any virtual environment
exists. README.md tells what it does and why.

Settings come from the environment (settings.py) and are values from there on. What the cluster is
made of is pure text and argument lists (configs.py, servers.py, objects.py). Each concern that
touches the machine has one small file.
"""
