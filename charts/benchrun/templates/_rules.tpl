{{/*
Everything the operator may do in the namespaces of runs, in either scope. No Secrets: specs name them, kubelet reads them.
What a run is made of is created, deleted and never changed; of pods, which controllers make, the operator only reads.
"get" of such an object tells whose it is when its name is taken.
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
{{- if or .Values.rbac.finalizers (include "benchrun.isOpenShift" .) }}
- apiGroups: [benchrun.dev]
  resources: [benchmarkruns/finalizers, benchmarksweeps/finalizers] # for blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on
  verbs: [update]
{{- end }}
{{ include "benchrun.childRules" . }}
{{- if (.Values.kueue | default dict).enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors] # node labels and tolerations of the pods that were given a quota
  verbs: [get]
- apiGroups: [visibility.kueue.x-k8s.io]
  resources: [localqueues/pendingworkloads] # a run's place in its queue
  verbs: [get]
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/log] # the tail of a server that failed; of others their start, and compilations while measured
  verbs: [get]
{{- if eq .Values.podRoad "Proxy" }}
- apiGroups: [""]
  resources: [pods/proxy] # metrics and records, where pods can't be reached directly
  verbs: [get, create]
{{- end }}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices] # pods behind spec.endpoint.serviceRef
  verbs: [list]
- apiGroups: [""]
  resources: [events] # list: how long a server's node pulled its image, why a pod is not made
  verbs: [list, create]
{{- end -}}
