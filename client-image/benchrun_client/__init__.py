"""The load side of benchrun: one process that measures a whole run.

It knows nothing of Kubernetes.
"""
