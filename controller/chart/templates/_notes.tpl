{{/*
Values without effect, one sentence each. A test compares the list of names with values.yaml, because a chart cannot read its own
values.yaml.
*/}}
{{- define "kerf.notes" -}}
{{- $image := .Values.controller.image -}}
{{- if or $image.repository $image.tag $image.digest }}
- controller.image ({{ $image.repository | default "without a repository" }}) is Karpenter's image and is ignored: kerf.image is Kerf's.
{{- end }}
{{- if and .Values.settings.disableClusterStateObservability (or .Values.kerf.monitoring.prometheusRule.enabled .Values.kerf.monitoring.dashboards.enabled) }}
- kerf.monitoring: most alerts and dashboards have no data, because settings.disableClusterStateObservability disables their metrics.
{{- end }}
{{- if and .Values.kerf.observe .Values.settings.interruptionQueue }}
- settings.interruptionQueue: with kerf.observe the controller reads no queue, because another one needs its messages.
{{- end }}
{{- range $at, $names := dict
  "" (list "additionalAnnotations" "additionalClusterRoleRules" "additionalLabels" "affinity" "controller" "dnsConfig" "dnsPolicy" "extraVolumes" "fullnameOverride" "hostNetwork" "imagePullPolicy" "imagePullSecrets" "initContainers" "kerf" "logErrorOutputPaths" "logLevel" "logOutputPaths" "nameOverride" "nodeSelector" "podAnnotations" "podDisruptionBudget" "podLabels" "podSecurityContext" "priorityClassName" "replicas" "revisionHistoryLimit" "schedulerName" "service" "serviceAccount" "serviceMonitor" "settings" "strategy" "terminationGracePeriodSeconds" "tolerations" "topologySpreadConstraints")
  "controller" (list "containerName" "env" "envFrom" "extraVolumeMounts" "healthProbe" "image" "metrics" "resources" "securityContext" "sidecarContainer" "sidecarVolumeMounts")
  "settings" (list "amiRefreshInterval" "batchIdleDuration" "batchMaxDuration" "clusterCABundle" "clusterEndpoint" "clusterName" "disableClusterStateObservability" "disableDryRun" "eksControlPlane" "enableZonalShift" "featureGates" "ignoreDRARequests" "interruptionQueue" "isolatedVPC" "minValuesPolicy" "preferencePolicy" "reservedENIs" "subnetRefreshInterval" "vmMemoryOverheadPercent")
}}
{{- range $name, $_ := ternary $.Values (get $.Values $at) (eq $at "") }}
{{- if not (has $name (append $names "global")) }}
- {{ ternary $name (printf "%s.%s" $at $name) (eq $at "") }} is not a value of this chart and has no effect: correct the name or remove it.
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
