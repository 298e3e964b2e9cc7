"""Pages in the form of NVIDIA's DCGM exporter, with the figures that a test gives.

They are written by hand, not recorded. Names, types and help texts are those of
`etc/default-counters.csv` of github.com/NVIDIA/dcgm-exporter (d5e5f51, May 2026), where clock
reasons and double-bit errors are not among the default figures; lines and labels are those of its
README, with the Kubernetes mapping. Bits of the reasons: `nvmlClocksEventReason*` in NVML's nvml.h.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_HELP = {
    "DCGM_FI_DEV_SM_CLOCK": ("SM clock frequency (in MHz).", "gauge"),
    "DCGM_FI_DEV_GPU_TEMP": ("GPU temperature (in C).", "gauge"),
    "DCGM_FI_DEV_POWER_USAGE": ("Power draw (in W).", "gauge"),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": (
        "Total energy consumption since boot (in mJ).",
        "counter",
    ),
    "DCGM_FI_DEV_GPU_UTIL": ("GPU utilization (in %).", "gauge"),
    "DCGM_FI_DEV_XID_ERRORS": ("Value of the last XID error encountered.", "gauge"),
    "DCGM_FI_DEV_FB_USED": ("Framebuffer memory used (in MiB).", "gauge"),
    "DCGM_FI_DEV_FB_FREE": ("Framebuffer memory free (in MiB).", "gauge"),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": (
        "Total number of double-bit volatile ECC errors.",
        "counter",
    ),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": (
        "Number of remapped rows for uncorrectable errors",
        "counter",
    ),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": (
        "Current clock event reasons (bitmask).",
        "gauge",
    ),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": (
        "Current clock throttle reasons (bitmask).",
        "gauge",
    ),
}


@dataclass(frozen=True)
class Gpu:
    """One GPU, and the pod that holds it."""

    number: int = 0
    watts: float | None = 412.5
    millijoules: int | None = 196_764_132
    memory_mib: int | None = 71_234
    free_mib: int | None = None
    clock_mhz: int | None = 1980
    xid: int | None = None
    double_bit_errors: int | None = None
    remapped_rows: int | None = None
    reasons: int | None = None
    old_reasons: int | None = None
    pod: str | None = "chat-server-x"
    namespace: str = "lab"
    container: str = "vllm"
    instance: str | None = None
    """GPU_I_ID of a part of it."""
    labels: tuple[str, str, str] = ("container", "namespace", "pod")

    def line(self, name: str, value: float) -> str:
        held = (
            dict(
                zip(
                    self.labels,
                    (self.container, self.namespace, self.pod),
                    strict=True,
                )
            )
            if self.pod
            else {}
        )
        part = (
            {"GPU_I_PROFILE": "1g.10gb", "GPU_I_ID": self.instance}
            if self.instance is not None
            else {}
        )
        labels = {
            "gpu": str(self.number),
            "UUID": f"GPU-5b4e07f6-3a86-4340-039d-25f2a83cdc4{self.number}",
            "pci_bus_id": f"00000000:0{self.number}:07.0",
            "device": f"nvidia{self.number}",
            "modelName": "NVIDIA H100 80GB HBM3",
            **part,
            "Hostname": "n1",
            "DCGM_FI_DRIVER_VERSION": "580.105.08",
            **held,
        }
        pairs = ",".join(f'{key}="{text}"' for key, text in labels.items())
        return f"{name}{{{pairs}}} {value}"


def gpu_page(*gpus: Gpu) -> str:
    return "".join(_family(name, gpus) for name in _HELP)


def _family(name: str, gpus: Sequence[Gpu]) -> str:
    text, kind = _HELP[name]
    values = [(gpu, _value(gpu, name)) for gpu in gpus]
    lines = [gpu.line(name, value) for gpu, value in values if value is not None]
    return (
        "\n".join([f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines, ""])
        if lines
        else ""
    )


def _value(gpu: Gpu, name: str) -> float | None:
    return {
        "DCGM_FI_DEV_SM_CLOCK": gpu.clock_mhz,
        "DCGM_FI_DEV_GPU_TEMP": 41,
        "DCGM_FI_DEV_POWER_USAGE": gpu.watts,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": gpu.millijoules,
        "DCGM_FI_DEV_GPU_UTIL": 97,
        "DCGM_FI_DEV_FB_USED": gpu.memory_mib,
        "DCGM_FI_DEV_FB_FREE": gpu.free_mib,
        "DCGM_FI_DEV_XID_ERRORS": gpu.xid,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": gpu.double_bit_errors,
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": gpu.remapped_rows,
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": gpu.reasons,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": gpu.old_reasons,
    }[name]
