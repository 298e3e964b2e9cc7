{{/*
Everything the operator may do, in either scope. No Secrets: specs name them, kubelet reads them.
The right to write is to the kinds that a run is made of; of pods, which controllers make, it only reads.
*/}}
{{- define "benchrun.rules" -}}
- apiGroups: [benchrun.dev]
  resources: [benchmarkruns]
  verbs: [get, list, watch, create, patch, delete] # create, patch: runs of sweeps; delete: ttlSecondsAfterFinished
- apiGroups: [benchrun.dev]
  resources: [benchmarksweeps]
  verbs: [get, list, watch]
- apiGroups: [benchrun.dev]
  resources: [benchmarkruns/status, benchmarksweeps/status]
  verbs: [patch]
- apiGroups: [benchrun.dev]
  resources: [benchmarkruns/finalizers, benchmarksweeps/finalizers] # for blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on
  verbs: [update]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
{{- if .Values.rbac.leaderWorkerSets }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets] # servers over several nodes; the cluster may lack the kind, or get it later
  verbs: [get, list, create, patch, delete]
{{- end }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies] # around servers in vLLM's development mode, which cachePolicy Reset needs
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods/log] # the tail of a server that failed; of others their start, and compilations while measured
  verbs: [get]
{{- if eq .Values.podRoad "Proxy" }}
- apiGroups: [""]
  resources: [pods/proxy] # metrics pages and records, where pods can't be reached directly
  verbs: [get, create]
{{- end }}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices] # pods behind spec.endpoint.serviceRef
  verbs: [list]
- apiGroups: [""]
  resources: [events] # list: how long a server's node pulled its image
  verbs: [list, create]
{{- end -}}
