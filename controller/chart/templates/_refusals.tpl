{{/*
Values that cannot be granted, or that contradict each other, end here with a sentence that names the value and the cure. The schema
has evaluated types before.
*/}}
{{- define "kerf.refusals" -}}
{{- if not (hasKey (.Values.kerf | default dict) "monitoring") -}}
{{- fail "the values lack the defaults of this chart, as they do with --reuse-values, which keeps the defaults of the chart before: use --reset-then-reuse-values, or give your values file" -}}
{{- end -}}
{{- $settings := .Values.settings -}}
{{- if not (tpl (toString $settings.clusterName) . | trim) -}}
{{- fail "settings.clusterName is missing: it is the name of your EKS cluster, as in --set settings.clusterName=prod" -}}
{{- end -}}
{{- if not .Values.kerf.image.repository -}}
{{- fail "kerf.image.repository is missing: it says where Kerf's controller image is, as in --set kerf.image.repository=REGISTRY/kerf-controller; controller.image names Karpenter's and is left aside" -}}
{{- end -}}
{{- if not $settings.ignoreDRARequests -}}
{{- fail "settings.ignoreDRARequests is false, but Kerf does not plan for ResourceClaims: set it to true, and give pods with claims nodes of their own" -}}
{{- end -}}
{{- $gates := list "nodeRepair" "reservedCapacity" "spotToSpotConsolidation" "nodeOverlay" "staticCapacity" "capacityBuffer" -}}
{{- range $gate, $open := $settings.featureGates -}}
{{- if not (has $gate $gates) -}}
{{- fail (printf "settings.featureGates.%s is no feature gate: known are %s" $gate (join ", " $gates)) -}}
{{- end -}}
{{- end -}}
{{- range concat .Values.logOutputPaths .Values.logErrorOutputPaths -}}
{{- if not (has . (list "stdout" "stderr" "/dev/stdout" "/dev/stderr")) -}}
{{- fail (printf "logOutputPaths and logErrorOutputPaths name %q, but Kerf writes its log to standard output only: leave stdout and stderr there, and collect the container's log" .) -}}
{{- end -}}
{{- end -}}
{{- if eq (int .Values.controller.metrics.port) (int .Values.controller.healthProbe.port) -}}
{{- fail (printf "controller.metrics.port and controller.healthProbe.port are both %d: give each a port of its own" (int .Values.controller.metrics.port)) -}}
{{- end -}}
{{- include "kerf.refusals.forms" . -}}
{{- include "kerf.refusals.environment" . -}}
{{- include "kerf.refusals.cluster" . -}}
{{- end -}}

{{/* What the controller would refuse when it starts. An empty value is the controller's default. */}}
{{- define "kerf.refusals.forms" -}}
{{- $settings := .Values.settings -}}
{{- range $name := list "batchMaxDuration" "batchIdleDuration" "amiRefreshInterval" "subnetRefreshInterval" -}}
{{- $value := get $settings $name | toString -}}
{{- if not (regexMatch "^([0-9]+([.][0-9]+)?(ms|s|m|h))*$" $value) -}}
{{- fail (printf "settings.%s is %q, which is no duration: write it like 10s or 200ms" $name $value) -}}
{{- end -}}
{{- if and (hasSuffix "RefreshInterval" $name) (regexMatch "^([0-9.]+ms|[0-5]?[0-9]([.][0-9]+)?s)$" $value) -}}
{{- fail (printf "settings.%s is %q, but EC2 is asked once a minute at most: write 1m or more" $name $value) -}}
{{- end -}}
{{- end -}}
{{- $age := toString .Values.kerf.maxViewAge -}}
{{- if not (regexMatch "^([0-9]+([.][0-9]+)?(ms|s|m|h))*$" $age) -}}
{{- fail (printf "kerf.maxViewAge is %q, which is no duration: write it like 3m" $age) -}}
{{- end -}}
{{- $endpoint := tpl $settings.clusterEndpoint . -}}
{{- if and $endpoint (not (regexMatch "^https?://[^/]+" $endpoint)) -}}
{{- fail (printf "settings.clusterEndpoint is %q, which is no absolute URL: write it like https://ABC.eks.amazonaws.com, or leave it empty for what EKS says" $endpoint) -}}
{{- end -}}
{{- $overhead := toString $settings.vmMemoryOverheadPercent -}}
{{- if not (regexMatch "^(|0([.][0-9]*)?|1([.]0*)?)$" $overhead) -}}
{{- fail (printf "settings.vmMemoryOverheadPercent is %q, which is no fraction between 0 and 1: write 0.075 for 7.5 percent" $overhead) -}}
{{- end -}}
{{- if not (regexMatch "^[0-9]*$" (toString $settings.reservedENIs)) -}}
{{- fail (printf "settings.reservedENIs is %q, which is no number of network interfaces: write 0 or more" (toString $settings.reservedENIs)) -}}
{{- end -}}
{{- if not (regexMatch "^(|sha256:[0-9a-f]{64})$" .Values.kerf.image.digest) -}}
{{- fail (printf "kerf.image.digest is %q, which is no digest: write sha256: and 64 hexadecimal digits, or leave it empty and give kerf.image.tag" .Values.kerf.image.digest) -}}
{{- end -}}
{{- end -}}

{{- define "kerf.refusals.environment" -}}
{{- range .Values.controller.env -}}
{{- $value := toString .value | lower -}}
{{- if and (eq .name "DISABLE_LEADER_ELECTION") (eq $value "true") (gt (int $.Values.replicas) 1) -}}
{{- fail (printf "controller.env sets DISABLE_LEADER_ELECTION for %d replicas, which would all buy machines: set replicas to 1, or leave the election on" (int $.Values.replicas)) -}}
{{- end -}}
{{- if and (eq .name "IGNORE_DRA_REQUESTS") (eq $value "false") -}}
{{- fail "controller.env sets IGNORE_DRA_REQUESTS to false, but Kerf does not plan for ResourceClaims: take it out" -}}
{{- end -}}
{{- if has .name (list "LEADER_ELECTION_NAME" "LEADER_ELECTION_NAMESPACE" "SYSTEM_NAMESPACE") -}}
{{- fail (printf "controller.env sets %s, but the chart's Role is for the Lease karpenter-leader-election in the release's namespace: take it out" .name) -}}
{{- end -}}
{{- if and (eq .name "AWS_REGION") $.Values.kerf.region -}}
{{- fail "kerf.region and controller.env both set AWS_REGION: take one of them out" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Helm installs CRDs with a new release only, and without NodeUsages the controller would wait for ever. A cluster that serves no
NodePools either is none: it is `helm template`.
*/}}
{{- define "kerf.refusals.cluster" -}}
{{- $served := .Capabilities.APIVersions -}}
{{- if and .Release.IsUpgrade ($served.Has "karpenter.sh/v1/NodePool") (not ($served.Has "kerf.sh/v1alpha1/NodeUsage")) -}}
{{- fail "the cluster has Karpenter's CRDs but no NodeUsages: upgrade the CRDs first, by the chart in controller/chart-crd (docs/install.md)" -}}
{{- end -}}
{{- end -}}
