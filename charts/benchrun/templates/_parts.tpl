{{/*
The parts beside the operator, `release` and `archive`: CronJobs with accounts and rights of their own. What is here takes
(dict "context" $ "part" (name of the part, and of its values)).
*/}}

{{/* Name of a part's objects. At most 52 characters, a CronJob's limit. */}}
{{- define "benchrun.partName" -}}
{{- include "benchrun.fullname" .context | trunc (sub 51 (len .part) | int) | trimSuffix "-" -}}-{{ .part }}
{{- end -}}

{{/* Name of its ServiceAccount. */}}
{{- define "benchrun.partAccount" -}}
{{- $account := (index .context.Values .part | default dict).serviceAccount | default dict -}}
{{- $default := dig "create" true $account | ternary (include "benchrun.partName" .) "default" -}}
{{- $account.name | default $default -}}
{{- end -}}

{{/* Its objects' labels: another component than the operator. */}}
{{- define "benchrun.partLabels" -}}
{{- merge (dict "app.kubernetes.io/component" .part) (fromYaml (include "benchrun.labels" (dict "context" .context))) | toYaml -}}
{{- end -}}

{{/* Labels that select its pods, and do not match the operator's. */}}
{{- define "benchrun.partSelectorLabels" -}}
app.kubernetes.io/name: {{ include "benchrun.partName" . | quote }}
app.kubernetes.io/instance: {{ .context.Release.Name | quote }}
{{- end -}}

{{/*
Its CronJob. Also takes:
  seconds    how long a Job may take
  env        list of variables
  envFrom    list of their sources
  volume     a volume, mounted at /archive; none if empty
  security   further fields of the pod's security context
*/}}
{{- define "benchrun.partCronJob" -}}
{{- $ := .context -}}
{{- $values := index $.Values .part -}}
{{- $labels := merge (fromYaml (include "benchrun.partSelectorLabels" .)) (fromYaml (include "benchrun.partLabels" .)) -}}
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ include "benchrun.partName" . }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "benchrun.partLabels" . | nindent 4 }}
spec:
  schedule: {{ $values.schedule | quote }}
  concurrencyPolicy: Forbid
  # After a long downtime the controller starts one Job, not a hundred.
  startingDeadlineSeconds: 100
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 2
  jobTemplate:
    metadata:
      labels:
        {{- toYaml $labels | nindent 8 }}
    spec:
      activeDeadlineSeconds: {{ .seconds }}
      backoffLimit: 0
      template:
        metadata:
          labels:
            {{- merge $labels ($values.podLabels | default dict) | toYaml | nindent 12 }}
          {{- with $values.podAnnotations }}
          annotations:
            {{- toYaml . | nindent 12 }}
          {{- end }}
        spec:
          serviceAccountName: {{ include "benchrun.partAccount" . }}
          automountServiceAccountToken: true
          enableServiceLinks: false
          restartPolicy: Never
          terminationGracePeriodSeconds: 5
          securityContext:
            {{- merge (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault")) (.security | default dict) | toYaml | nindent 12 }}
          {{- with $.Values.imagePullSecrets }}
          imagePullSecrets:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $.Values.priorityClassName }}
          priorityClassName: {{ . | quote }}
          {{- end }}
          containers:
            - name: {{ .part }}
              image: {{ include "benchrun.imageOf" (dict "context" $ "value" "image") }}
              imagePullPolicy: {{ $.Values.image.pullPolicy }}
              args: [{{ .part }}]
              env:
                {{- toYaml .env | nindent 16 }}
              {{- with .envFrom }}
              envFrom:
                {{- toYaml . | nindent 16 }}
              {{- end }}
              {{- with $values.resources }}
              resources:
                {{- toYaml . | nindent 16 }}
              {{- end }}
              securityContext:
                allowPrivilegeEscalation: false
                readOnlyRootFilesystem: true
                capabilities:
                  drop: [ALL]
              {{- if .volume }}
              volumeMounts:
                - {name: {{ .volume.name }}, mountPath: /archive}
              {{- end }}
          {{- with .volume }}
          volumes:
            - {{ toYaml . | nindent 14 | trim }}
          {{- end }}
          {{- with $.Values.nodeSelector }}
          nodeSelector:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $.Values.tolerations }}
          tolerations:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $.Values.affinity }}
          affinity:
            {{- toYaml . | nindent 12 }}
          {{- end }}
{{- end -}}

{{/* Its ServiceAccount, unless that comes from elsewhere. */}}
{{- define "benchrun.partServiceAccount" -}}
{{- $account := (index .context.Values .part | default dict).serviceAccount | default dict -}}
{{- if dig "create" true $account -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "benchrun.partAccount" . }}
  namespace: {{ .context.Release.Namespace }}
  labels:
    {{- include "benchrun.partLabels" . | nindent 4 }}
  {{- with $account.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}
{{- end -}}

{{/* Its NetworkPolicy: DNS, the API server, and the further rules `egress`. */}}
{{- define "benchrun.partNetworkPolicy" -}}
{{- $allowed := .context.Values.networkPolicies.egress -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "benchrun.partName" . }}
  namespace: {{ .context.Release.Namespace }}
  labels:
    {{- include "benchrun.partLabels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "benchrun.partSelectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  egress:
    - ports: # DNS
        - {port: 53, protocol: UDP}
        - {port: 53, protocol: TCP}
    - ports: # the API server
        {{- range $allowed.apiServerPorts }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
      {{- with $allowed.apiServerCIDRs }}
      to:
        {{- range . }}
        - ipBlock:
            cidr: {{ . }}
        {{- end }}
      {{- end }}
    {{- with .egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Its rights where runs are, in either scope. Also takes `rules`, as text. */}}
{{- define "benchrun.partRoles" -}}
{{- $ := .context -}}
{{- $isCluster := eq $.Values.rbac.scope "cluster" -}}
{{- $kind := $isCluster | ternary "ClusterRole" "Role" -}}
{{- $part := . -}}
{{- range splitList "," (include "benchrun.namespaces" $) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ include "benchrun.partName" $part }}
  {{- if not $isCluster }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "benchrun.partLabels" $part | nindent 4 }}
rules:
  {{- $part.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ include "benchrun.partName" $part }}
  {{- if not $isCluster }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "benchrun.partLabels" $part | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ include "benchrun.partName" $part }}
subjects:
  - kind: ServiceAccount
    name: {{ include "benchrun.partAccount" $part }}
    namespace: {{ $.Release.Namespace }}
{{- end }}
{{- end -}}
