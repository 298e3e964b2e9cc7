"""The flags of `vllm serve` 0.32 beyond those the simulator acts on, by the values they take.

They are accepted, checked for form and reported in the log, and change nothing. A flag that is
neither here nor in `arguments` is unknown to vLLM 0.32 too and ends in its usage error. `|`
separates aliases.
"""


def _names(text: str) -> list[str]:
    return text.split()


SWITCHES = _names("""
--aggregate-engine-logging --data-parallel-multi-port-external-lb|-dpm --grpc
""")
"""Present or absent, no value."""

BOOLEANS = _names("""
--allow-credentials --allow-deprecated-quantization --async-scheduling --cohere-is-reasoning-model
--cudagraph-metrics --data-parallel-external-lb|-dpe --data-parallel-hybrid-lb|-dph --dcp-q-replicate
--disable-cascade-attn --disable-chunked-mm-input --disable-custom-all-reduce --disable-fastapi-docs
--disable-hybrid-kv-cache-manager --disable-nccl-for-dp-synchronization --disable-sliding-window
--disable-uvicorn-access-log --enable-auto-tool-choice --enable-batch-sharded-sampling --enable-chunked-prefill
--enable-cumem-allocator --enable-dbo --enable-elastic-ep --enable-ep-weight-filter --enable-eplb
--enable-expert-parallel|-ep --enable-fault-tolerance --enable-flash-late-interaction --enable-flashinfer-autotune
--enable-force-include-usage --enable-hc-sp --enable-layerwise-nvtx-tracing --enable-log-deltas
--enable-log-outputs --enable-log-requests --enable-logging-iteration-details --enable-lora
--enable-mamba-cache-stochastic-rounding --enable-mamba-shared-prefix-checkpoint --enable-mfu-metrics
--enable-mixed-moe-lora-format --enable-mm-embeds --enable-moe-shared-loras --enable-nccl-comm-suspend
--enable-offline-docs --enable-per-request-metrics --enable-prompt-embeds --enable-request-id-headers
--enable-return-routed-experts --enable-scale-out --enable-server-load-tracking --enable-shm-tensor-arena
--enable-sleep-mode --enable-ssl-refresh --enable-tokenizer-info-endpoint --enable-tower-connector-lora
--enable-trace-replay --enforce-eager --exclude-tools-when-tool-choice-none --fail-on-environ-validation
--fully-sharded-loras --interleave-mm-strings --jit-monitor-verbose --kv-cache-metrics --kv-sharing-fast-prefill
--language-model-only --log-error-stack --long-prefill-token-threshold-adaptive --mm-device-do-normalize
--mm-encoder-only --numa-bind --ray-workers-use-nsight --return-sampling-mask --return-tokens-as-token-ids
--scheduler-reserve-full-isl --skip-mm-profiling --skip-tokenizer-init --sleep-mode-offload-cudagraph
--specialize-active-lora --swa-bounded-replay --tokens-only --trust-remote-code --trust-request-chat-template
--trust-request-mm-kwargs --use-fp64-gumbel --use-replayssm --use-tqdm-on-load
""")
"""`--x` or `--no-x`."""

INTEGERS = _names("""
--api-server-count|-asc --cp-kv-cache-interleave-size --data-parallel-rank|-dpn --data-parallel-rpc-port|-dpp
--data-parallel-size-local|-dpl --data-parallel-size|-dp --data-parallel-start-rank|-dpr
--data-parallel-supervisor-port --dbo-decode-token-threshold --dbo-prefill-token-threshold
--dcp-kv-cache-interleave-size --decode-context-parallel-size|-dcp --dp-supervisor-probe-failure-threshold
--dp-sync-interval --elastic-ep-max-dp-size --h11-max-header-count --h11-max-incomplete-event-size
--long-prefill-token-threshold --mamba-cache-philox-rounds --master-port --max-cudagraph-capture-size
--max-logprobs --max-lora-rank --max-loras --mm-shm-cache-max-object-size-mb --nnodes|-n --node-rank|-r
--offload-group-size --offload-num-in-group --offload-prefetch-step --pipeline-parallel-size|-pp
--prefill-context-parallel-size|-pcp --prefill-schedule-interval --renderer-num-workers --replayssm-buffer-len
--safetensors-prefetch-num-threads --shutdown-timeout --spec-tokens --sse-keep-alive-interval --ssl-cert-reqs
--ubatch-size
""")
"""One whole number."""

FLOATS = _names("""
--cpu-offload-gb --dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s --kv-cache-metrics-sample
--mm-encoder-fp8-scale-save-margin --mm-ipc-gpu-memory-gb --mm-processor-cache-gb --watermark
""")
"""One number."""

TEXTS = _names("""
--all2all-backend --allowed-local-media-path --anthropic-disabled-thinking-effort --attention-backend
--chat-template --chat-template-content-format --code-revision --cohere-format --config --config-format --convert
--cpu-distributed-timeout-seconds --custom-histogram-buckets --data-parallel-address|-dpa
--data-parallel-backend|-dpb --dcp-comm-backend --default-mm-loras --device-ids --disable-access-log-for-endpoints
--distributed-executor-backend --distributed-timeout-seconds --download-dir --dtype --expert-placement-strategy
--fingerprint-mode --fingerprint-value --gdn-prefill-backend --generation-config --grpc-port --hf-config-path
--hf-overrides --hf-token --io-processor-plugin --jit-monitor-mode --kda-decode-backend --kda-prefill-backend
--kv-cache-dtype --kv-cache-memory-bytes --kv-offloading-backend --kv-offloading-size --limit-mm-per-prompt
--linear-backend --load-format --log-config-file --log-level --logprobs-mode --lora-dtype --mamba-backend
--mamba-block-size --mamba-cache-dtype --mamba-cache-mode --mamba-ssm-cache-dtype --mamba-ssu-algorithm
--master-addr --max-cpu-loras --max-log-len --max-lora-cls-labels --max-num-active-seqs
--max-num-scheduled-tokens --max-parallel-loading-workers --media-io-kwargs --middleware
--mm-encoder-attn-backend --mm-encoder-attn-dtype --mm-encoder-fp8-scale-path --mm-encoder-fp8-scale-save-path
--mm-encoder-tp-mode --mm-hasher-algorithm --mm-processor-cache-type --mm-processor-device --mm-processor-kwargs
--mm-tensor-ipc --model-class-overrides --model-impl --moe-backend --num-gpu-blocks-override --offload-backend
--optimization-level --otlp-traces-endpoint --override-generation-config --per-request-spec-decode-metrics
--performance-mode --prefix-cache-retention-interval --prefix-caching-hash-algo --prefix-match-unit
--pt-load-map-location --quantization|-q --reasoning-parser --reasoning-parser-plugin --response-role --revision
--root-path --runner --safetensors-load-strategy --safetensors-prefetch-block-size --scheduler-cls
--scheduling-policy --show-hidden-metrics-for-version --sparse-indexer-topk-backend --spec-method --spec-model
--ssl-ca-certs --ssl-certfile --ssl-ciphers --ssl-keyfile --tokenizer-mode --tokenizer-revision --tool-call-parser
--tool-parser-plugin --tool-server --tool-strict-level --uds --uvicorn-log-level --video-pruning-method
--video-pruning-rate --worker-cls --worker-extension-cls
""")
"""One value of any form."""

LISTS = _names("""
--allowed-media-domains --collect-detailed-traces --cpu-offload-params --cudagraph-capture-sizes --ignore-patterns
--kv-cache-dtype-skip-layers --logits-processors --lora-modules --lora-target-modules --numa-bind-cpus
--numa-bind-nodes --offload-params --sleep-preserve-parameter-names
""")
"""One value or more."""

JSONS = _names("""
--additional-config --allowed-headers --allowed-methods --allowed-origins --attention-config|-ac
--aux-output-config --compilation-config|-cc --default-chat-template-kwargs --diffusion-config|-dc
--ec-manager-config --ec-transfer-config --engram-config --eplb-config --fault-tolerance-config --ir-op-priority
--kernel-config --kv-events-config --logging-config --model-loader-extra-config
--pooler-config --profiler-config --quantization-config --reasoning-config --speculative-config|-sc
--structured-outputs-config --watermark-config --weight-transfer-config
""")
"""One JSON value; `--x.key value` sets a member."""
