{{/* Name of what releases servers without the operator: its ServiceAccount, roles, CronJob and ConfigMap. At most 52 characters,
     which a CronJob's name may have. */}}
{{- define "benchrun.releaseName" -}}
{{- include "benchrun.fullname" . | trunc 44 | trimSuffix "-" -}}-release
{{- end -}}

{{/* Its objects' labels: another component than the operator. */}}
{{- define "benchrun.releaseLabels" -}}
{{- merge (dict "app.kubernetes.io/component" "release") (fromYaml (include "benchrun.labels" (dict "context" .))) | toYaml -}}
{{- end -}}

{{/* Labels that select its pods, and by which nobody takes them for the operator's. */}}
{{- define "benchrun.releaseSelectorLabels" -}}
app.kubernetes.io/name: {{ include "benchrun.releaseName" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* What it may do where runs are. Nothing of a run is read but metadata. */}}
{{- define "benchrun.releaseRules" -}}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, delete]
{{- if .Values.rbac.leaderWorkerSets }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [list, delete]
{{- end }}
- apiGroups: [""]
  resources: [pods] # which servers hold a node
  verbs: [list]
- apiGroups: [""]
  resources: [events] # what was deleted, and why
  verbs: [create]
{{- end -}}
