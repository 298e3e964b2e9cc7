{{/* "true" if the API server has ValidatingAdmissionPolicies, else nothing. */}}
{{- define "benchrun.hasAdmissionPolicies" -}}
{{- if or (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy") -}}
true
{{- end -}}
{{- end -}}

{{/*
One ValidatingAdmissionPolicy and its binding. Takes a dict:
  context    $
  name       what is confined, for the object's name
  account    ServiceAccount of the release's namespace that it concerns; nobody else is
  resources  list of dicts: group, resources
  operations
  variables  CEL by name
  validations list of dicts: expression, message
*/}}
{{- define "benchrun.admissionPolicy" -}}
{{- $name := printf "%s-%s.%s" (include "benchrun.fullname" .context) .name .context.Release.Namespace -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}
  labels:
    {{- include "benchrun.labels" (dict "context" .context) | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      {{- range .resources }}
      - apiGroups: [{{ .group | quote }}]
        apiVersions: ["*"]
        resources: {{ .resources | toJson }}
        operations: {{ $.operations | toJson }}
      {{- end }}
  matchConditions:
    - name: by-this-account
      expression: request.userInfo.username == 'system:serviceaccount:{{ .context.Release.Namespace }}:{{ .account }}'
  {{- with .variables }}
  variables:
    {{- range $variable, $expression := . }}
    - name: {{ $variable }}
      expression: {{ $expression | quote }}
    {{- end }}
  {{- end }}
  validations:
    {{- range .validations }}
    - expression: >-
        {{- .expression | trim | nindent 8 }}
      message: {{ .message | quote }}
    {{- end }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "benchrun.labels" (dict "context" .context) | nindent 4 }}
spec:
  policyName: {{ $name }}
  validationActions: [Deny]
{{- end -}}

{{/* CEL: the subject's controller is an object of ours of this kind. */}}
{{- define "benchrun.controlledBy" -}}
has(variables.subject.metadata.ownerReferences) && variables.subject.metadata.ownerReferences.exists(owner,
has(owner.controller) && owner.controller && owner.kind == '{{ . }}' && owner.apiVersion.startsWith('benchrun.dev/'))
{{- end -}}

{{/* CEL: the subject carries a run's label, and that run is its controller. To be deleted either is enough, since whoever may
     write it can take away the other; but never what another object controls. */}}
{{- define "benchrun.ofARun" -}}
request.operation == 'DELETE' ? ({{ include "benchrun.controlledBy" "BenchmarkRun" }}) ||
has(variables.subject.metadata.labels) && 'benchrun.dev/run-uid' in variables.subject.metadata.labels &&
!(has(variables.subject.metadata.ownerReferences) && variables.subject.metadata.ownerReferences.exists(owner,
has(owner.controller) && owner.controller)) :
has(variables.subject.metadata.labels) && 'benchrun.dev/run-uid' in variables.subject.metadata.labels &&
has(variables.subject.metadata.ownerReferences) && variables.subject.metadata.ownerReferences.exists(owner,
has(owner.controller) && owner.controller && owner.kind == 'BenchmarkRun' && owner.apiVersion.startsWith('benchrun.dev/') &&
owner.uid == variables.subject.metadata.labels['benchrun.dev/run-uid'])
{{- end -}}

{{/* CEL: what is created, or what is changed or deleted as it was before. */}}
{{- define "benchrun.subject" -}}
request.operation == 'CREATE' ? object : oldObject
{{- end -}}

{{/* CEL: none of the pods has a ServiceAccount token, or anything of the node's own. */}}
{{- define "benchrun.harmlessPods" -}}
variables.pods.all(pod, has(pod.automountServiceAccountToken) && !pod.automountServiceAccountToken &&
!(has(pod.hostNetwork) && pod.hostNetwork) && !(has(pod.hostPID) && pod.hostPID) && !(has(pod.hostIPC) && pod.hostIPC) &&
(!has(pod.volumes) || pod.volumes.all(volume, !has(volume.projected) || !has(volume.projected.sources) ||
volume.projected.sources.all(source, !has(source.serviceAccountToken)))))
{{- end -}}

{{/* CEL: no pod mounts a path of its node. */}}
{{- define "benchrun.noHostPath" -}}
variables.pods.all(pod, !has(pod.volumes) || pod.volumes.all(volume, !has(volume.hostPath)))
{{- end -}}

{{/* CEL: no container runs as root, neither because that is said nor because its image says so and nothing else is said. */}}
{{- define "benchrun.notRoot" -}}
variables.pods.all(pod, has(pod.securityContext) &&
(has(pod.securityContext.runAsUser) ? pod.securityContext.runAsUser != 0 :
has(pod.securityContext.runAsNonRoot) && pod.securityContext.runAsNonRoot) &&
(pod.containers + (has(pod.initContainers) ? pod.initContainers : [])).all(container, !has(container.securityContext) ||
(!has(container.securityContext.runAsUser) || container.securityContext.runAsUser != 0) &&
(!has(container.securityContext.runAsNonRoot) || container.securityContext.runAsNonRoot)))
{{- end -}}

{{/* CEL: no container gets a capability beside these, or privileges. Takes their names. */}}
{{- define "benchrun.noCapabilityBut" -}}
variables.pods.all(pod, (pod.containers + (has(pod.initContainers) ? pod.initContainers : [])).all(container,
!has(container.securityContext) || (!(has(container.securityContext.privileged) && container.securityContext.privileged) &&
(!has(container.securityContext.capabilities) || !has(container.securityContext.capabilities.add) ||
container.securityContext.capabilities.add.all(added, added in [{{ include "benchrun.quoted" . }}])))))
{{- end -}}

{{/* CEL: every pod has one of these for the field, or none. Takes (dict "field" "allowed" (list)). */}}
{{- define "benchrun.oneOf" -}}
variables.pods.all(pod, !has(pod.{{ .field }}) || pod.{{ .field }} in [{{ include "benchrun.quoted" (prepend .allowed "") }}])
{{- end -}}

{{/* What the pods of runs may not be, as a JSON list of validations; values allow each. */}}
{{- define "benchrun.podRules" -}}
{{- $policy := .Values.admissionPolicy -}}
{{- $named := $policy.serviceAccounts | default list -}}
{{- $classes := $policy.priorityClasses | default list -}}
{{- $capabilities := list -}}
{{- range list "server" "offline" "client" "proxy" -}}
{{- $role := index ($.Values.runs | default dict) . | default dict -}}
{{- $capabilities = concat $capabilities ($role.capabilities | default list) -}}
{{- with $role.priorityClassName -}}
{{- $classes = append $classes . -}}
{{- end -}}
{{- with $role.serviceAccountName -}}
{{- $named = append $named . -}}
{{- end -}}
{{- end -}}
{{- $rules := list (dict "expression" (include "benchrun.harmlessPods" .) "message" "pods of a run get no ServiceAccount token, and may not use hostNetwork, hostPID or hostIPC") -}}
{{- $rules = append $rules (dict "expression" (include "benchrun.noCapabilityBut" (uniq $capabilities)) "message" "pods of a run get no privileges, and only the capabilities that the chart's runs name") -}}
{{- if not $policy.allowHostPath -}}
{{- $rules = append $rules (dict "expression" (include "benchrun.noHostPath" .) "message" "pods of a run may not mount a hostPath unless admissionPolicy.allowHostPath is set") -}}
{{- end -}}
{{- if not $policy.allowRoot -}}
{{- $rules = append $rules (dict "expression" (include "benchrun.notRoot" .) "message" "pods of a run may not run as root unless admissionPolicy.allowRoot is set: their securityContext needs runAsNonRoot: true or another runAsUser than 0") -}}
{{- end -}}
{{- if not (has "*" $named) -}}
{{- $accounts := prepend $named "default" -}}
{{- range list "serviceAccountName" "serviceAccount" -}}
{{- $rules = append $rules (dict "expression" (include "benchrun.oneOf" (dict "field" . "allowed" $accounts)) "message" "pods of a run may have only a ServiceAccount of admissionPolicy.serviceAccounts") -}}
{{- end -}}
{{- end -}}
{{- if not (has "*" $classes) -}}
{{- $rules = append $rules (dict "expression" (include "benchrun.oneOf" (dict "field" "priorityClassName" "allowed" $classes)) "message" "pods of a run may have only a PriorityClass of admissionPolicy.priorityClasses") -}}
{{- end -}}
{{- $rules | toJson -}}
{{- end -}}
