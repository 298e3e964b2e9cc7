"""vLLM without its API server: the engine gets a load in one call, as `vllm bench throughput` and
`vllm bench latency` do.

`engine_server` loads it in the GPU's pod; `engine_client` hands it a load and gets back when each
request began and ended."""
