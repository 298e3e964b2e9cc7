"""The operator as the end-to-end tests install it."""

from e2e.conftest import namespace, operator

__all__ = ["namespace", "operator"]
