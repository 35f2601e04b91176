{{/*
Names and labels equal those of a release of the chart karpenter, so that an upgrade keeps its objects: selectors are immutable.
*/}}
{{- define "kerf.name" -}}
{{- .Values.nameOverride | default "karpenter" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kerf.fullname" -}}
{{- $name := .Values.nameOverride | default "karpenter" -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kerf.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "kerf.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "kerf.selector" -}}
app.kubernetes.io/name: {{ include "kerf.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels and annotations of an object. Argument: `dict "root" $ "annotations" ...`. */}}
{{- define "kerf.metadata" -}}
labels:
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
  {{- include "kerf.selector" .root | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  {{- with merge dict (.labels | default dict) .root.Values.additionalLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge dict (.annotations | default dict) .root.Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Name of an image. Argument: `dict "root" $ "image" .Values.kerf.image`. */}}
{{- define "kerf.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Names of the ConfigMaps of the decision log: two rings. */}}
{{- define "kerf.decisionMaps" -}}
{{- range until 12 }}
- kerf-decisions-{{ . }}
{{- end }}
{{- range until 4 }}
- kerf-summaries-{{ . }}
{{- end }}
{{- end -}}

{{/* Names and labels of the page differ from those of the controller, whose Service and PodDisruptionBudget must not select it. */}}
{{- define "kerf.pageName" -}}
{{- printf "%s-page" (include "kerf.fullname" . | trunc 58 | trimSuffix "-") -}}
{{- end -}}

{{- define "kerf.pageSelector" -}}
app.kubernetes.io/name: {{ printf "%s-page" (include "kerf.name" . | trunc 58 | trimSuffix "-") | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "kerf.subject" -}}
- kind: ServiceAccount
  name: {{ include "kerf.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
