{{/* Name of the application: the same for all its releases. */}}
{{- define "benchrun.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of this release's objects. A release called "benchrun" is not called "benchrun-benchrun". */}}
{{- define "benchrun.fullname" -}}
{{- $name := include "benchrun.name" . -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the operator's ServiceAccount. */}}
{{- define "benchrun.serviceAccountName" -}}
{{- $default := .Values.serviceAccount.create | ternary (include "benchrun.fullname" .) "default" -}}
{{- .Values.serviceAccount.name | default $default -}}
{{- end -}}

{{/* Labels that select the operator's pod. Deployment selectors are immutable: never add to them. */}}
{{- define "benchrun.selectorLabels" -}}
app.kubernetes.io/name: {{ include "benchrun.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels of every object. Takes (dict "context" $ "extra" (a map of further labels)); the chart's own win. */}}
{{- define "benchrun.labels" -}}
{{- $own := fromYaml (include "benchrun.selectorLabels" .context) -}}
{{- $_ := set $own "app.kubernetes.io/version" .context.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/component" "operator" -}}
{{- $_ := set $own "app.kubernetes.io/part-of" "benchrun" -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .context.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- merge $own (.extra | default dict) .context.Values.commonLabels | toYaml -}}
{{- end -}}

{{/* Reference of an image that must be named. Takes (dict "context" $ "value" "image" or "clientImage"). */}}
{{- define "benchrun.imageOf" -}}
{{- $image := index .context.Values .value -}}
{{- if not $image.repository -}}
{{- fail (printf "\n\n%s.repository is required: it names the image that you built and pushed. Add --set %s.repository=REGISTRY/benchrun/%s (docs/install.md, Images).\n" .value .value (eq .value "image" | ternary "operator" "client")) -}}
{{- end -}}
{{- include "benchrun.image" (dict "context" .context "image" $image) -}}
{{- end -}}

{{/* Reference of an image; a digest wins over the tag. Takes (dict "context" $ "image" (one of the image values)). */}}
{{- define "benchrun.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .context.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The watched namespaces, separated by commas; empty in cluster scope, which watches all. */}}
{{- define "benchrun.namespaces" -}}
{{- if eq .Values.rbac.scope "namespace" -}}
{{- .Values.watchNamespaces | default (list .Release.Namespace) | join "," -}}
{{- else if .Values.watchNamespaces -}}
{{- fail "watchNamespaces needs rbac.scope=namespace; with rbac.scope=cluster all namespaces are watched" -}}
{{- end -}}
{{- end -}}

{{/* "true" on OpenShift, else nothing. Only Helm with a cluster before it can tell. */}}
{{- define "benchrun.isOpenShift" -}}
{{- if .Capabilities.APIVersions.Has "config.openshift.io/v1" -}}
true
{{- end -}}
{{- end -}}

{{/* What all runs get, as the operator reads it: JSON, with the user from the namespace found out. */}}
{{- define "benchrun.runDefaults" -}}
{{- $runs := .Values.runs | default dict -}}
{{- $found := include "benchrun.isOpenShift" . | eq "true" -}}
{{- $fromNamespace := kindIs "bool" $runs.userFromNamespace | ternary $runs.userFromNamespace $found -}}
{{- merge (dict "userFromNamespace" $fromNamespace) (omit $runs "userFromNamespace") | toJson -}}
{{- end -}}

{{/* Labels as a selector: key=value, separated by commas. */}}
{{- define "benchrun.selector" -}}
{{- $parts := list -}}
{{- range $key, $value := . -}}
{{- $parts = append $parts (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $parts -}}
{{- end -}}

{{/* Words as a list in CEL. */}}
{{- define "benchrun.quoted" -}}
{{- $parts := list -}}
{{- range . -}}
{{- $parts = append $parts (printf "'%s'" .) -}}
{{- end -}}
{{- join ", " $parts -}}
{{- end -}}
