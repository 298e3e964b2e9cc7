"""benchrun: benchmark experiments on LLM servers as Kubernetes objects."""
