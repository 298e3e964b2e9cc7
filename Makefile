# Every command of the project. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export DEVCLUSTER_DIR ?= $(CURDIR)/.devcluster
export DEVCLUSTER_CACHE ?= $(HOME)/.cache/benchrun-devcluster
export PATH := $(CURDIR)/.venv/bin:$(DEVCLUSTER_CACHE)/bin:$(PATH)
# The embedded cluster, unless CLUSTER=current says to use the one kubectl points to.
ifneq ($(CLUSTER),current)
export KUBECONFIG := $(DEVCLUSTER_DIR)/admin.kubeconfig
OPERATOR_IMAGE ?= docker.io/benchrun/operator:dev
CLIENT_IMAGE ?= docker.io/benchrun/client:dev
# Tests apply the kinds themselves before the chart does. On a cluster that others use Helm keeps to what it made.
HELM_OWNERSHIP := --take-ownership --force-conflicts
else ifneq ($(filter demo install,$(MAKECMDGOALS)),)
$(if $(and $(OPERATOR_IMAGE),$(CLIENT_IMAGE)),,$(error CLUSTER=current needs OPERATOR_IMAGE=... and CLIENT_IMAGE=..., \
  images that its nodes can pull; docs/install.md says how to build them))
endif
VERSION := $(shell sed -n '/^\[project\]/,/^\[/s/^version = "\(.*\)"/\1/p' pyproject.toml)
RELEASE_REGISTRY ?= ghcr.io/benchrun
DIST ?= dist
SIMULATOR_IMAGE ?= docker.io/benchrun/simulator:dev
VLLM_IMAGE ?= docker.io/vllm/vllm-openai:dev
export OPERATOR_IMAGE CLIENT_IMAGE SIMULATOR_IMAGE VLLM_IMAGE

# Of HOST:PORT/NAME:TAG the tag is what follows the colon in the last part.
tag = $(word 2,$(subst :, ,$(notdir $(1))))
repository = $(patsubst %:$(call tag,$(1)),%,$(1))

DEVCLUSTER := python3 devcluster
# Some machines forbid bytecode; then every run would compile and rewrite 500 test modules again.
PYTEST := PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-zA-Z0-9_-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-zA-Z0-9_-]+):.*## (.*)/  \1\t\2/' | expand -t 20
	@for f in benchmarks/*.py; do n=$$(basename $$f .py); [[ $$n == _* || $$n == "*" ]] || printf '  %-17s %s\n' "bench-$${n//_/-}" "Benchmark: $$(sed -n '1s/^"""\([^"]*\).*/\1/p' $$f)"; done

# ---- use it ---------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: .venv ## Bring up a cluster, install the operator, run a benchmark on real vLLM (SIMULATOR=1: a simulated one), show the result
	dev/demo.sh

.PHONY: devcluster-up
devcluster-up: ## Bring up the embedded one-node Kubernetes
	$(DEVCLUSTER) vllm
	$(DEVCLUSTER) images
	$(DEVCLUSTER) up

.PHONY: devcluster-down
devcluster-down: ## Take it down and remove what it left
	$(DEVCLUSTER) down

.PHONY: images
images: ## Build the operator, client and simulator images and load them into the embedded cluster
	$(DEVCLUSTER) build -t $(OPERATOR_IMAGE) --build-arg VERSION=$(VERSION) .
	$(DEVCLUSTER) build -t $(CLIENT_IMAGE) --build-arg VERSION=$(VERSION) -f client-image/Dockerfile .
	$(DEVCLUSTER) build -t $(SIMULATOR_IMAGE) -f tests/simulator/Dockerfile tests/simulator

.PHONY: install
install: ## Install the operator with Helm into the cluster
	helm upgrade --install $(HELM_OWNERSHIP) benchrun charts/benchrun \
	  --namespace benchrun-system --create-namespace --wait --timeout 3m \
	  --set image.repository=$(call repository,$(OPERATOR_IMAGE)) --set-string image.tag=$(call tag,$(OPERATOR_IMAGE)) \
	  --set clientImage.repository=$(call repository,$(CLIENT_IMAGE)) --set-string clientImage.tag=$(call tag,$(CLIENT_IMAGE)) \
	  $(HELM_FLAGS)
	@# A development tag stays the same when its image does not: a new image needs a new pod.
	kubectl --namespace benchrun-system rollout restart deployment --selector app.kubernetes.io/name=benchrun
	kubectl --namespace benchrun-system rollout status deployment --selector app.kubernetes.io/name=benchrun --timeout 180s

.PHONY: release
release: .venv ## Build a release into DIST=dist: images, chart, install.yaml, wheel, plugin, bills of materials, checksums (RELEASE_REGISTRY=...)
	rm -rf $(DIST)
	command -v helm >/dev/null || $(DEVCLUSTER) tools
	$(DEVCLUSTER) images
	@# Removed again: the embedded cluster would be given all that lies in the storage. Their layers stay, shared with those of `images`.
	for each in operator:Dockerfile client:client-image/Dockerfile; do \
	  image=$(RELEASE_REGISTRY)/$${each%%:*}:$(VERSION); \
	  $(DEVCLUSTER) build -t $$image --build-arg VERSION=$(VERSION) -f $${each#*:} .; \
	  $(DEVCLUSTER) save -o $(DIST)/$${each%%:*}-$(VERSION).oci.tar $$image; \
	  $(DEVCLUSTER) remove $$image; \
	done
	.venv/bin/python -m dev.release $(DIST) --registry $(RELEASE_REGISTRY)

# ---- check it -------------------------------------------------------------------------------------------------------

.PHONY: test
test: lint test-unit devcluster-up images test-chart test-cluster test-e2e ## All tests that fit CI
	@echo "make test: all passed"

.PHONY: test-long
test-long: .venv devcluster-up images test-experiments ## The longer proofs: experiments, a second cluster, the client alone, the benchmarks
	$(PYTEST) tests/devcluster
	$(PYTEST) tests/client
	EXAMPLES=400 $(PYTEST) -m hypothesis --numprocesses=auto tests/unit
	$(DEVCLUSTER) lws
	$(DEVCLUSTER) argocd
	$(PYTEST) tests/long $(EXPERIMENTS:%=--ignore=%)
	helm uninstall benchrun --namespace benchrun-system --ignore-not-found --no-hooks --wait
	$(PYTEST) $(LONG_CLUSTER)
	$(MAKE) --no-print-directory test-browser bench-report
	$(MAKE) --no-print-directory install bench-gpu-idle
	@# These run operators of their own.
	helm uninstall benchrun --namespace benchrun-system --ignore-not-found --no-hooks --wait
	$(MAKE) --no-print-directory bench-runs bench-chaos bench-scale
	$(MAKE) --no-print-directory bench-judge bench-proxy bench-shards bench-sessions bench-certainty bench-truth

.PHONY: stranger
stranger: .venv devcluster-up images ## A stranger's way: from the files of a release to a measured sweep, on a strict cluster (part of test-long)
	$(PYTEST) tests/long/test_stranger.py

# The tiny manifests of docs/experiments, and the two that belong to them.
EXPERIMENTS := $(addprefix tests/long/test_,four_latencies.py profile.py disaggregated_vllm.py prompts_sent_again.py \
  packed_texts.py swept_experiments.py)

.PHONY: test-experiments
test-experiments: .venv devcluster-up images ## Every tiny experiment on real vLLM, with its answers; reports are kept in .reports
	REPORTS_DIR=$(CURDIR)/.reports $(PYTEST) $(EXPERIMENTS)

.PHONY: lint
lint: .venv ## Style, types, import contracts, generated files, the size of the CRDs
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python -m dev.generate --check
	.venv/bin/python dev/house.py
	@test ! -e operator/__init__.py || { echo "operator/__init__.py shadows the standard library's operator module; remove it"; exit 1; }

.PHONY: check
check: .venv ## What a change needs, in a minute: style, types, imports, generated files, the unit tests of what changed since BASE
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python -m dev.generate --check
	tests=$$(.venv/bin/python dev/changed_tests.py $(or $(BASE),HEAD)); \
	if [[ -n $$tests ]]; then $(PYTEST) -q --numprocesses=auto $$tests; else echo "no unit test stands for what changed"; fi

.PHONY: house
house: .venv ## Lines and tokens of the source, as a trend
	.venv/bin/python dev/house.py

.PHONY: test-unit
test-unit: .venv ## Pure tests, on all cores
	$(PYTEST) --numprocesses=auto tests/unit

.PHONY: test-chart
test-chart: .venv ## The Helm chart, rendered and checked; every status, read as GitOps tools do
	$(DEVCLUSTER) tools
	$(PYTEST) tests/chart tests/gitops

.PHONY: test-cluster
test-cluster: .venv ## Against a real API server
	@# These tests write status themselves; an operator left from a demo would write over it.
	helm uninstall benchrun --namespace benchrun-system --ignore-not-found --no-hooks --wait
	$(PYTEST) tests/cluster $(LONG_CLUSTER:%=--ignore=%)

# Minutes each: an API server that is away, hundreds of large runs, Kueue to build and install.
LONG_CLUSTER := tests/cluster/faults/test_control_plane.py tests/cluster/test_one_tenant.py \
  tests/cluster/test_kueue.py

.PHONY: test-e2e
test-e2e: .venv ## Real pods, real vLLM, the Helm-installed operator
	$(PYTEST) tests/e2e

.PHONY: faults
faults: .venv ## Try every fault and write what was measured into docs/faults.md
	helm uninstall benchrun --namespace benchrun-system --ignore-not-found --no-hooks --wait
	FAULTS_FILE=docs/faults.json $(PYTEST) tests/cluster/faults
	FAULTS_FILE=docs/faults.json $(PYTEST) tests/e2e/faults
	.venv/bin/python -m dev.generate

.PHONY: test-browser
test-browser: .venv ## The HTML report in a real browser
	dev/browser.sh
	$(PYTEST) tests/browser

FUZZ_SECONDS ?= 600
.PHONY: fuzz
fuzz: .venv ## Readers of what others write, under a coverage-guided fuzzer for FUZZ_SECONDS; READERS="pods statuses" are some
	.venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes -r requirements/fuzz.txt
	PYTHONPATH=.:operator:client-image:tests/simulator:tests:benchmarks .venv/bin/python -m fuzz $(FUZZ_SECONDS) $(READERS)

.PHONY: mutants
mutants: .venv ## Break pure code in 60 places, one after the other, and see that a test fails (an hour); SEED=1: other places
	PYTHONDONTWRITEBYTECODE= .venv/bin/python dev/mutants.py --seed $(or $(SEED),37)

.PHONY: bench-%
bench-%: .venv
	.venv/bin/python benchmarks/$(subst -,_,$*).py

# ---- keep it --------------------------------------------------------------------------------------------------------

.PHONY: crds
crds: .venv ## Generate the CRD, its copy in the chart, and the reference page from the models
	.venv/bin/python -m dev.generate

.PHONY: format
format: .venv ## Format the code
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

.PHONY: lock
lock: ## Resolve the dependencies anew into requirements/
	uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --python-version 3.11 \
	  --extra operator --extra archive --extra dev pyproject.toml -o requirements/dev.txt
	uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --python-version 3.11 \
	  --extra operator --extra archive pyproject.toml -o requirements/operator.txt
	uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --python-version 3.11 \
	  --group fuzz -o requirements/fuzz.txt
	uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --python-version 3.11 \
	  --group client -o requirements/client.txt
	uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --python-version 3.11 \
	  --group release -o requirements/release.txt

.PHONY: .venv
.venv:
	@dev/bootstrap.sh
