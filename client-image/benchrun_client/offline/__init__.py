"""vLLM without its API server: its engine gets a whole load in one call.

`vllm bench throughput` and `vllm bench latency` do the same. `engine_server` runs the engine in the
pod with the GPU; `engine_client` sends it a load and gets back when each request began and ended.
"""
