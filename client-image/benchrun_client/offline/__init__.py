"""vLLM without its API server: the engine gets a whole load in one call, as `vllm bench throughput` and `vllm bench latency` do.

In the pod that has the GPU, `python -m benchrun_client.offline` loads the engine and answers on a small port; in the client,
`engine_client` hands it a load and gets back when each request began and ended. No token crosses the network.
"""
