{{/* Name of the release CronJob, its ServiceAccount, roles and ConfigMap. At most 52 characters, a CronJob's limit. */}}
{{- define "benchrun.releaseName" -}}
{{- include "benchrun.fullname" . | trunc 44 | trimSuffix "-" -}}-release
{{- end -}}

{{/* Its objects' labels: another component than the operator. */}}
{{- define "benchrun.releaseLabels" -}}
{{- merge (dict "app.kubernetes.io/component" "release") (fromYaml (include "benchrun.labels" (dict "context" .))) | toYaml -}}
{{- end -}}

{{/* Labels that select its pods, and do not match the operator's. */}}
{{- define "benchrun.releaseSelectorLabels" -}}
app.kubernetes.io/name: {{ include "benchrun.releaseName" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Its rules in the namespaces of runs. It reads only metadata of a run. */}}
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
