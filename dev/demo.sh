#!/usr/bin/env bash
# The whole product in one command: a cluster, the operator, a benchmark of a real vLLM server, its result.
# SIMULATOR=1 takes a simulated server instead: no model, no GPU, and a result with something to explain.
# CLUSTER=current uses the cluster kubectl points to: a GPU of its own, vLLM's public image, a model from the hub, and the
# operator and client that OPERATOR_IMAGE and CLIENT_IMAGE name. EXAMPLE=FILE shows the runs of another manifest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
die() { echo "error: $*" >&2; exit 2; }

example=examples/quickstart.yaml
[ "${SIMULATOR:-}" != 1 ] || example=examples/simulator.yaml
if [ "${CLUSTER:-}" = current ]; then
  [ "${SIMULATOR:-}" != 1 ] || [ -n "${EXAMPLE:-}" ] ||
    die "SIMULATOR=1 needs an image and a model that only the embedded cluster has; with CLUSTER=current name a manifest: EXAMPLE=FILE"
  for tool in kubectl helm; do command -v "$tool" >/dev/null || die "$tool is missing; CLUSTER=current uses the one you have"; done
  example=examples/quickstart-gpu.yaml
fi
example=${EXAMPLE:-$example}
[ -r "$example" ] || die "there is no file $example"
read -ra runs < <(.venv/bin/python -c 'import sys, yaml
print(*(o["metadata"]["name"] for o in yaml.safe_load_all(open(sys.argv[1])) if o and o["kind"] == "BenchmarkRun"))' "$example" 2>/dev/null) ||
  die "$example is not YAML of Kubernetes objects, each with a name"
[ "${#runs[@]}" -gt 0 ] || die "$example holds no BenchmarkRun"

if [ "${CLUSTER:-}" != current ]; then
  say "1/4 a one-node Kubernetes on this machine"
  make --no-print-directory devcluster-up images
else
  say "1/4 using the cluster of context $(kubectl config current-context)"
fi

say "2/4 installing the operator with Helm"
make --no-print-directory install

say "3/4 kubectl apply -f $example"
kubectl delete benchmarkrun "${runs[@]}" --ignore-not-found
kubectl apply -f "$example"
status=0
.venv/bin/benchrun watch "${runs[@]}" || status=$?
# 4: measured, but the judge calls some of it Invalid, as on a machine too busy to measure on. That is a result, not a failure.
if [ "$status" = 4 ]; then
  echo "Some figures are invalid; the findings above say why. On a busy machine it is mostly the client that had no core to itself."
  status=0
fi

say "4/4 the same, as kubectl shows it"
kubectl get bmr "${runs[@]}"
kubectl get deployments,pods -l "benchrun.dev/run in ($(IFS=,; echo "${runs[*]}"))"
name=${runs[0]}
printf '\nLook further:\n'
[ "${CLUSTER:-}" = current ] || echo '  eval "$(python3 devcluster env)"         # first: this cluster'\''s kubectl, in your shell'
cat <<TXT
  kubectl get bmr $name -o yaml            # everything: results, findings, provenance
  kubectl describe bmr $name               # conditions and events
  kubectl explain bmr.spec                 # what else can be asked
  .venv/bin/benchrun report $name          # the tables again
  .venv/bin/benchrun explain               # every finding there is; with a code, its page
  .venv/bin/benchrun judge $name --help    # re-evaluate with other thresholds
Clean up:
TXT
if [ "${CLUSTER:-}" = current ]; then
  echo "  kubectl delete -f $example && helm uninstall benchrun --namespace benchrun-system"
else
  echo "  make devcluster-down"
fi
exit "$status"
