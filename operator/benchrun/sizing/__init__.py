"""How much KV cache a model needs, and how much fits: vLLM's own arithmetic, from a model's config.json. Pure."""
