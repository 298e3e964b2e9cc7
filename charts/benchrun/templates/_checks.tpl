{{/* Refuses values that do not fit together. */}}
{{- define "benchrun.checks" -}}
{{- $policies := .Values.networkPolicies -}}
{{- if and $policies.runs (eq .Values.podRoad "Proxy") -}}
{{- fail "\n\npodRoad: Proxy connects to pods through the API server, which networkPolicies.runs blocks: set networkPolicies.runs=false.\n" -}}
{{- end -}}
{{- if and $policies.operator .Values.metrics.serviceMonitor.enabled (not $policies.metricsPeers) -}}
{{- fail "\n\nmetrics.serviceMonitor.enabled needs networkPolicies.metricsPeers: the pods of your Prometheus, for example [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]. networkPolicies.operator=false lets every pod read /metrics.\n" -}}
{{- end -}}
{{- if and $policies.egress.enabled (not $policies.operator) -}}
{{- fail "\n\nnetworkPolicies.egress.enabled needs networkPolicies.operator=true: both are the same NetworkPolicy.\n" -}}
{{- end -}}
{{- end -}}
