{{/* Generated from operator/benchrun/child_kinds.py by: python -m dev.generate */}}
{{/* What the operator may do with the objects of runs, by kind. */}}
{{- define "benchrun.childRules" -}}
- apiGroups: ["apps"]
  resources: [deployments]
  verbs: [get, list, watch, create, delete]
{{- if (.Values.rbac | default dict).leaderWorkerSets }}
- apiGroups: ["leaderworkerset.x-k8s.io"]
  resources: [leaderworkersets]
  verbs: [get, list, create, delete]
{{- end }}
- apiGroups: ["batch"]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, delete]
- apiGroups: ["networking.k8s.io"]
  resources: [networkpolicies]
  verbs: [get, list, watch, create]
{{- if (.Values.kueue | default dict).enabled }}
- apiGroups: ["kueue.x-k8s.io"]
  resources: [workloads]
  verbs: [get, list, watch, create, delete]
{{- end }}
{{- end -}}

{{/* The kinds of these objects that make no pods, as JSON. */}}
{{- define "benchrun.plainChildren" -}}
[{"group": "", "resources": ["services"]}, {"group": "", "resources": ["configmaps"]}, {"group": "networking.k8s.io", "resources": ["networkpolicies"]}, {"group": "kueue.x-k8s.io", "resources": ["workloads"]}]
{{- end -}}
