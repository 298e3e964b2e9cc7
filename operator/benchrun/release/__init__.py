"""Releases servers without the operator; shares no code with its reconciler."""
