"""The proxy in front of a split server: some pods compute prompts, others generate answers.

Every completion goes to a prefill server first, for one token, and then to a decode server, which
fetches the KV cache of the prompt from it. The proxy needs aiohttp but not vLLM, and starts within
a second.
"""
