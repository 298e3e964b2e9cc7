"""The proxy before a split server: one set of pods computes prompts, another generates answers.

Every completion goes to a prefill server first, for one token, and then to a decode server, which
fetches what the first has computed. The proxy needs aiohttp and nothing of vLLM, and is up in a
second.
"""
