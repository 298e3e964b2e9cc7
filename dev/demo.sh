#!/usr/bin/env bash
# The whole product in one command: a cluster, the operator, a benchmark of a real vLLM server, its result.
# SIMULATOR=1 takes a simulated server instead: no model, no GPU, and a result with something to explain.
# CLUSTER=current uses the cluster kubectl points to; then OPERATOR_IMAGE and CLIENT_IMAGE must be pullable from it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
default=examples/quickstart.yaml
[ "${SIMULATOR:-}" != 1 ] || default=examples/simulator.yaml
example=${EXAMPLE:-$default}
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

if [ "${CLUSTER:-}" != current ]; then
  say "1/4 a one-node Kubernetes on this machine"
  make --no-print-directory devcluster-up images
else
  say "1/4 using the cluster of context $(kubectl config current-context)"
fi

say "2/4 installing the operator with Helm"
make --no-print-directory install

say "3/4 kubectl apply -f $example"
name=$(.venv/bin/python -c 'import sys, yaml; print(yaml.safe_load(open(sys.argv[1]))["metadata"]["name"])' "$example")
kubectl delete benchmarkrun "$name" --ignore-not-found
kubectl apply -f "$example"
status=0
.venv/bin/benchrun watch "$name" || status=$?
# 4: measured, but the judge calls some of it Invalid, as on a machine too busy to measure on. That is a result, not a failure.
if [ "$status" = 4 ]; then
  echo "Some figures are invalid; the findings above say why. On a busy machine it is mostly the client that had no core to itself."
  status=0
fi

say "4/4 the same, as kubectl shows it"
kubectl get bmr "$name"
kubectl get deployments,pods -l "benchrun.dev/run=$name"
cat <<TXT

Look further:
  kubectl get bmr $name -o yaml            # everything: results, findings, provenance
  kubectl describe bmr $name               # conditions and events
  kubectl explain bmr.spec                 # what else can be asked
  .venv/bin/benchrun report $name          # the tables again
  .venv/bin/benchrun explain               # every finding there is; with a code, its page
  .venv/bin/benchrun judge $name --help    # judge the stored records anew, by other thresholds
TXT
if [ "${CLUSTER:-}" != current ]; then
  cat <<TXT
  eval "\$(python3 devcluster env)"         # to use this cluster's kubectl in your shell
Clean up:
  make devcluster-down
TXT
else
  cat <<TXT
Clean up:
  kubectl delete bmr $name && helm uninstall benchrun --namespace benchrun-system
TXT
fi
exit "$status"
