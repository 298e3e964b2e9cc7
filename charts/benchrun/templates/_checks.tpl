{{/* Refuses values that do not fit together. */}}
{{- define "benchrun.checks" -}}
{{- $policies := .Values.networkPolicies -}}
{{- if and $policies.runs (eq .Values.podRoad "Proxy") -}}
{{- fail "\n\npodRoad: Proxy connects to pods through the API server, which networkPolicies.runs blocks: set networkPolicies.runs=false.\n" -}}
{{- end -}}
{{- if and $policies.operator .Values.metrics.serviceMonitor.enabled (not $policies.metricsPeers) -}}
{{- fail "\n\nmetrics.serviceMonitor.enabled needs networkPolicies.metricsPeers: the pods of your Prometheus, for example [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]. networkPolicies.operator=false lets every pod read /metrics.\n" -}}
{{- end -}}
{{- if and .Values.metrics.prometheusRule.enabled (not .Values.metrics.serviceMonitor.enabled) -}}
{{- fail "\n\nmetrics.prometheusRule.enabled needs metrics.serviceMonitor.enabled=true: without it nobody scrapes what the alerts ask for, and BenchrunOperatorDown fires for ever. To scrape in another way, load files/alerts.yaml (docs/dashboards.md).\n" -}}
{{- end -}}
{{- if and .Values.release.enabled (eq (include "benchrun.serviceAccountName" .) (include "benchrun.releaseAccount" .)) -}}
{{- fail "\n\nserviceAccount.name and release.serviceAccount.name must be two accounts: the CronJob has less rights than the operator.\n" -}}
{{- end -}}
{{- if and (.Values.kueue | default dict).enabled (ne .Values.rbac.scope "cluster") -}}
{{- fail "\n\nkueue.enabled needs rbac.scope=cluster: ResourceFlavors, which the operator reads, belong to no namespace.\n" -}}
{{- end -}}
{{- with .Values.archive | default dict -}}
{{- if .enabled -}}
{{- if eq (empty .place) (empty .claim) -}}
{{- fail "\n\narchive.enabled needs archive.place, an address such as s3://BUCKET/PREFIX, or archive.claim, the name of a claim: one of the two.\n" -}}
{{- end -}}
{{- if not .schedule -}}
{{- fail "\n\narchive.schedule is not set, as in values of an older release that --reuse-values takes: use --reset-then-reuse-values.\n" -}}
{{- end -}}
{{- $account := include "benchrun.partAccount" (dict "context" $ "part" "archive") -}}
{{- if has $account (list (include "benchrun.serviceAccountName" $) (include "benchrun.releaseAccount" $)) -}}
{{- fail "\n\narchive.serviceAccount.name must be an account of its own: others of this release have other rights, and the storage's credentials are for this one alone.\n" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $policies.egress.enabled (not $policies.operator) -}}
{{- fail "\n\nnetworkPolicies.egress.enabled needs networkPolicies.operator=true: both are the same NetworkPolicy.\n" -}}
{{- end -}}
{{- $runs := .Values.runs | default dict -}}
{{- $labels := $runs.copyLabels | default list -}}
{{- range list "server" "offline" "client" "proxy" -}}
{{- $role := index $runs . | default dict -}}
{{- $labels = concat $labels (keys ($role.labels | default dict)) (keys ($role.annotations | default dict)) -}}
{{- if and $.Values.admissionPolicy.enabled (not $.Values.admissionPolicy.allowHostPath) -}}
{{- range $role.volumes -}}
{{- if hasKey . "hostPath" -}}
{{- fail (printf "\n\nruns: the volume %s is a hostPath, which admissionPolicy.allowHostPath=false refuses in every run: set it to true, or use another volume.\n" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (ne . "client") (hasKey $role "preparationEnv") -}}
{{- fail (printf "\n\nruns.%s.preparationEnv: only the client has a preparation: use runs.client.preparationEnv, or runs.%s.env.\n" . .) -}}
{{- end -}}
{{- $both := list -}}
{{- range concat ($role.env | default list) ($role.preparationEnv | default list) -}}
{{- if and .value (regexMatch "://[^/@[:space:]]*:[^/@[:space:]]*@" .value) -}}
{{- fail (printf "\n\nruns: %s has a password in its value: put the value into a Secret of each namespace and use valueFrom.secretKeyRef.\n" .name) -}}
{{- end -}}
{{- if has .name $both -}}
{{- fail (printf "\n\nruns: %s is given twice for one role: leave it in one place, in env or in preparationEnv.\n" .name) -}}
{{- end -}}
{{- $both = append $both .name -}}
{{- end -}}
{{- end -}}
{{- range $labels -}}
{{- if regexMatch "^([^/]*[.])?benchrun[.]dev/" . -}}
{{- fail (printf "\n\nruns: %s is benchrun's own: remove it from copyLabels, labels and annotations.\n" .) -}}
{{- end -}}
{{- end -}}
{{- if gt (len (include "benchrun.runDefaults" .)) 49152 -}}
{{- fail "\n\nruns takes more than 48 KiB as JSON: give only what all runs need.\n" -}}
{{- end -}}
{{- if and .Values.release.enabled (eq .Values.rbac.scope "namespace") -}}
{{- $watched := splitList "," (include "benchrun.namespaces" .) -}}
{{- $state := include "benchrun.releaseName" . -}}
{{- range $clock, $since := (lookup "v1" "ConfigMap" .Release.Namespace $state).data | default dict -}}
{{- $namespace := splitList "." $clock | first -}}
{{- if not (has $namespace $watched) -}}
{{- fail (printf "\n\nwatchNamespaces lacks %s, where a run's server holds a node: nobody would release it. End the runs there first; the CronJob notes that at its next look. If nothing runs there, delete ConfigMap %s.\n" $namespace $state) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
