{{/* Rights of the part `archive` where runs are. It reads no Secret, and changes of a run only the status. */}}
{{- define "benchrun.archiveRules" -}}
- apiGroups: [benchrun.dev]
  resources: [benchmarkruns]
  verbs: [get, list]
- apiGroups: [benchrun.dev]
  resources: [benchmarkruns/status] # the condition Archived
  verbs: [patch]
- apiGroups: [""]
  resources: [configmaps] # records and result documents
  verbs: [get, list]
{{- end -}}
