"""The objects every cluster has from the start: rights for CoreDNS, and a storage class.

All functions here are pure.
"""

from typing import Any

RBAC = "rbac.authorization.k8s.io"


def initial_objects() -> dict[str, Any]:
    """Return the objects that every `up` applies, as one List."""
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [*_dns_rights(), _storage_class()],
    }


def capacity_patch(gpus: int) -> dict[str, Any]:
    """Return a patch of the node's status that adds made-up GPUs.

    The scheduler counts them, and no container sees them.
    """
    resources = {"nvidia.com/gpu": str(gpus)}
    return {"status": {"capacity": resources, "allocatable": resources}}


def _dns_rights() -> list[dict[str, Any]]:
    name = "system:coredns"
    watch = ["get", "list", "watch"]
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["services", "pods", "namespaces", "nodes"],
                "verbs": watch,
            },
            {
                "apiGroups": ["discovery.k8s.io"],
                "resources": ["endpointslices"],
                "verbs": watch,
            },
        ],
    }
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
    }
    return [role, binding]


def _storage_class() -> dict[str, Any]:
    """Return the default storage class, which turns claims into folders on the node.

    The controller manager itself makes the folders (--enable-hostpath-provisioner).
    """
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/host-path",
        "reclaimPolicy": "Delete",
    }
