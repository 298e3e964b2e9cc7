"""Delete overdue servers without the operator; this package shares no code with its reconciler."""
