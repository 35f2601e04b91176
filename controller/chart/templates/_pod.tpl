{{/* The controller's environment. The controller uses its own defaults for empty values. */}}
{{- define "kerf.environment" -}}
{{- $settings := .Values.settings -}}
{{- $gates := list -}}
{{- range $gate, $open := $settings.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" (include "kerf.gate" $gate) $open) -}}
{{- end -}}
- name: SYSTEM_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- range $pair := list
  (list "LOG_LEVEL" .Values.logLevel)
  (list "LOG_FORMAT" .Values.kerf.logFormat)
  (list "METRICS_PORT" .Values.controller.metrics.port)
  (list "HEALTH_PROBE_PORT" .Values.controller.healthProbe.port)
  (list "PROVIDER" (ternary "kwok" "" (eq .Values.kerf.provider "kwok")))
  (list "CLUSTER_NAME" (include "kerf.clusterName" .))
  (list "CLUSTER_ENDPOINT" $settings.clusterEndpoint)
  (list "CLUSTER_CA_BUNDLE" $settings.clusterCABundle)
  (list "CLUSTER_CIDR" .Values.kerf.clusterCIDR)
  (list "AWS_REGION" .Values.kerf.region)
  (list "ISOLATED_VPC" $settings.isolatedVPC)
  (list "EKS_CONTROL_PLANE" $settings.eksControlPlane)
  (list "VM_MEMORY_OVERHEAD_PERCENT" $settings.vmMemoryOverheadPercent)
  (list "RESERVED_ENIS" $settings.reservedENIs)
  (list "INTERRUPTION_QUEUE" $settings.interruptionQueue)
  (list "DISABLE_CLUSTER_STATE_OBSERVABILITY" $settings.disableClusterStateObservability)
  (list "METRICS_DETAIL" .Values.kerf.metricsDetail)
  (list "COST_LABEL" .Values.kerf.costLabel)
  (list "ENABLE_ZONAL_SHIFT" (ternary "true" "" $settings.enableZonalShift))
  (list "DISABLE_DRY_RUN" $settings.disableDryRun)
  (list "BATCH_MAX_DURATION" $settings.batchMaxDuration)
  (list "BATCH_IDLE_DURATION" $settings.batchIdleDuration)
  (list "PREFERENCE_POLICY" $settings.preferencePolicy)
  (list "MIN_VALUES_POLICY" $settings.minValuesPolicy)
  (list "AMI_REFRESH_INTERVAL" $settings.amiRefreshInterval)
  (list "SUBNET_REFRESH_INTERVAL" $settings.subnetRefreshInterval)
  (list "FEATURE_GATES" (join "," $gates))
  (list "RISK_PREMIUM" .Values.kerf.riskPremium)
  (list "PREFERENCE_PREMIUM" .Values.kerf.preferencePremium)
  (list "MAX_COST_PER_HOUR" .Values.kerf.maxCostPerHour)
  (list "DEBUG_PORT" .Values.kerf.debugPort)
  (list "MAX_VIEW_AGE" .Values.kerf.maxViewAge)
  (list "PACKING" .Values.kerf.packing.enabled)
  (list "SURGE" .Values.kerf.surge.enabled)
  (list "OBSERVE" (ternary "true" "" .Values.kerf.observe))
}}
{{- $value := index $pair 1 }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- name: {{ index $pair 0 }}
  value: {{ tpl (toString $value) $ | quote }}
{{- end }}
{{- end }}
{{- with .Values.controller.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Name of the cluster. Simulated nodes need no EKS cluster. */}}
{{- define "kerf.clusterName" -}}
{{- $name := tpl (toString .Values.settings.clusterName) . | trim -}}
{{- if eq .Values.kerf.provider "kwok" -}}{{- default "kwok" $name -}}{{- else -}}{{- $name -}}{{- end -}}
{{- end -}}

{{/* Converts nodeRepair to NodeRepair. */}}
{{- define "kerf.gate" -}}
{{ substr 0 1 . | upper }}{{ substr 1 -1 . }}
{{- end -}}

{{- define "kerf.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
{{- range $field, $value := .Values.controller.securityContext }}
{{- with $value }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Adds the controller's own labelSelector to a term of pod affinity or topology spread that has none. */}}
{{- define "kerf.withSelector" -}}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "kerf.selector" .root | fromYaml)) -}}
{{- $term := deepCopy .term -}}
{{- if not (hasKey $term "labelSelector") -}}
{{- $term = merge $term $own -}}
{{- end -}}
{{- toYaml $term -}}
{{- end -}}

{{- define "kerf.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- range $kind := list "podAffinity" "podAntiAffinity" -}}
{{- with index $affinity $kind -}}
{{- $required := list -}}
{{- range .requiredDuringSchedulingIgnoredDuringExecution -}}
{{- $required = append $required (include "kerf.withSelector" (dict "root" $ "term" .) | fromYaml) -}}
{{- end -}}
{{- $preferred := list -}}
{{- range .preferredDuringSchedulingIgnoredDuringExecution -}}
{{- $term := include "kerf.withSelector" (dict "root" $ "term" .podAffinityTerm) | fromYaml -}}
{{- $preferred = append $preferred (dict "weight" .weight "podAffinityTerm" $term) -}}
{{- end -}}
{{- $terms := dict -}}
{{- with $required -}}{{- $_ := set $terms "requiredDuringSchedulingIgnoredDuringExecution" . -}}{{- end -}}
{{- with $preferred -}}{{- $_ := set $terms "preferredDuringSchedulingIgnoredDuringExecution" . -}}{{- end -}}
{{- $_ := set $affinity $kind $terms -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}
