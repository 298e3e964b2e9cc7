{{/* Name of the release CronJob, its ServiceAccount, roles and ConfigMap. At most 52 characters, a CronJob's limit. */}}
{{- define "benchrun.releaseName" -}}
{{- include "benchrun.fullname" . | trunc 44 | trimSuffix "-" -}}-release
{{- end -}}

{{/* Name of its ServiceAccount. */}}
{{- define "benchrun.releaseAccount" -}}
{{- $account := (.Values.release | default dict).serviceAccount | default dict -}}
{{- $default := dig "create" true $account | ternary (include "benchrun.releaseName" .) "default" -}}
{{- $account.name | default $default -}}
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
