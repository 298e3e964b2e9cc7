"""vLLM without its API server: the engine gets a load in one call.

`vllm bench throughput` and `vllm bench latency` do the same. `engine_server` loads the engine in
the GPU's pod; `engine_client` hands it a load and gets back when each request began and ended.
"""
