{{/* The part `release`, which deletes servers held too long. */}}
{{- define "benchrun.releaseName" -}}
{{- include "benchrun.partName" (dict "context" . "part" "release") -}}
{{- end -}}

{{- define "benchrun.releaseAccount" -}}
{{- include "benchrun.partAccount" (dict "context" . "part" "release") -}}
{{- end -}}

{{- define "benchrun.releaseLabels" -}}
{{- include "benchrun.partLabels" (dict "context" . "part" "release") -}}
{{- end -}}

{{/* Rules over servers in the namespaces of runs. Takes (dict "context" $ "verbs" (list)). */}}
{{- define "benchrun.serverRules" -}}
- apiGroups: [apps]
  resources: [deployments]
  verbs: {{ .verbs | toJson }}
{{- if .context.Values.rbac.leaderWorkerSets }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: {{ .verbs | toJson }}
{{- end }}
{{- end -}}

{{/* Its rules in the namespaces of runs. It reads nothing of a run, and of servers only metadata. */}}
{{- define "benchrun.releaseRules" -}}
{{ include "benchrun.serverRules" (dict "context" . "verbs" (list "list" "delete")) }}
- apiGroups: [""]
  resources: [pods] # which servers hold a node, and since when
  verbs: [list]
- apiGroups: [""]
  resources: [events] # what was deleted, and why
  verbs: [create]
{{- end -}}
