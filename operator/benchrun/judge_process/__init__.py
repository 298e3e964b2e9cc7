"""Run the judge in a process of its own, with limits on memory and CPU.

Only this process opens data that a tenant's pod sent.
"""
