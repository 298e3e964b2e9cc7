"""Which resource names are GPUs."""

from __future__ import annotations


def is_gpu(resource: str) -> bool:
    """Whole devices and their slices, whatever the vendor: `nvidia.com/gpu`, `nvidia.com/mig-1g.10gb`, `gpu.intel.com/i915`."""
    return resource.endswith(("/gpu", ".gpu")) or "/mig-" in resource or resource.startswith("gpu.")
