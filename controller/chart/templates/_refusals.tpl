{{/*
Rejects unsupported and contradictory values, with an error that names the value and the fix. The schema checks the types before.
*/}}
{{- define "kerf.refusals" -}}
{{- if not (hasKey (.Values.kerf | default dict) "page") -}}
{{- fail "the values lack the defaults of this chart, because --reuse-values keeps the defaults of the previous chart: use --reset-then-reuse-values, or pass your values file" -}}
{{- end -}}
{{- $settings := .Values.settings -}}
{{- if not (include "kerf.clusterName" .) -}}
{{- fail "settings.clusterName is missing: set the name of your EKS cluster, such as --set settings.clusterName=prod" -}}
{{- end -}}
{{- if not .Values.kerf.image.repository -}}
{{- fail "kerf.image.repository is missing: set the repository of Kerf's controller image, such as --set kerf.image.repository=REGISTRY/kerf-controller; controller.image is Karpenter's image and is ignored" -}}
{{- end -}}
{{- if and .Values.kerf.page.enabled (not .Values.kerf.page.image.repository) -}}
{{- fail "kerf.page.image.repository is missing: set the repository of the command's image, such as --set kerf.page.image.repository=REGISTRY/kerf-cli, or disable kerf.page" -}}
{{- end -}}
{{- if not $settings.ignoreDRARequests -}}
{{- fail "settings.ignoreDRARequests is false, but Kerf does not plan for ResourceClaims: set it to true, and run pods with claims on separate nodes" -}}
{{- end -}}
{{- $gates := list "nodeRepair" "reservedCapacity" "spotToSpotConsolidation" "nodeOverlay" "staticCapacity" "capacityBuffer" -}}
{{- range $gate, $open := $settings.featureGates -}}
{{- if not (has $gate $gates) -}}
{{- fail (printf "settings.featureGates.%s is not a feature gate: the feature gates are %s" $gate (join ", " $gates)) -}}
{{- end -}}
{{- end -}}
{{- range concat .Values.logOutputPaths .Values.logErrorOutputPaths -}}
{{- if not (has . (list "stdout" "stderr" "/dev/stdout" "/dev/stderr")) -}}
{{- fail (printf "logOutputPaths and logErrorOutputPaths name %q, but Kerf writes its log to standard output only: keep stdout and stderr, and collect the container's log" .) -}}
{{- end -}}
{{- end -}}
{{- if eq (int .Values.controller.metrics.port) (int .Values.controller.healthProbe.port) -}}
{{- fail (printf "controller.metrics.port and controller.healthProbe.port are both %d: give each a port of its own" (int .Values.controller.metrics.port)) -}}
{{- end -}}
{{- if and (eq .Values.kerf.provider "kwok") $settings.interruptionQueue -}}
{{- fail "settings.interruptionQueue names a queue, but kerf.provider is kwok, which simulates nodes without AWS: remove settings.interruptionQueue" -}}
{{- end -}}
{{- if and .Values.kerf.observe (or .Values.kerf.packing.enabled .Values.kerf.surge.enabled) -}}
{{- fail "kerf.observe lets the controller change nothing, but kerf.packing.enabled or kerf.surge.enabled let it change pods: disable these, or kerf.observe" -}}
{{- end -}}
{{- include "kerf.refusals.forms" . -}}
{{- include "kerf.refusals.environment" . -}}
{{- include "kerf.refusals.cluster" . -}}
{{- end -}}

{{/* Rejects values that the controller would reject at its start. An empty value selects the controller's default. */}}
{{- define "kerf.refusals.forms" -}}
{{- $settings := .Values.settings -}}
{{- range $name := list "batchMaxDuration" "batchIdleDuration" "amiRefreshInterval" "subnetRefreshInterval" -}}
{{- $value := get $settings $name | toString -}}
{{- if not (regexMatch "^([0-9]+([.][0-9]+)?(ms|s|m|h))*$" $value) -}}
{{- fail (printf "settings.%s is %q, which is not a duration: write it like 10s or 200ms" $name $value) -}}
{{- end -}}
{{- if and (hasSuffix "RefreshInterval" $name) $value (lt (include "kerf.milliseconds" $value | float64) 60000.0) -}}
{{- fail (printf "settings.%s is %q, but Kerf calls EC2 at most once per minute: write 1m or more" $name $value) -}}
{{- end -}}
{{- end -}}
{{- $age := toString .Values.kerf.maxViewAge -}}
{{- if not (regexMatch "^([0-9]+([.][0-9]+)?(ms|s|m|h))*$" $age) -}}
{{- fail (printf "kerf.maxViewAge is %q, which is not a duration: write it like 3m" $age) -}}
{{- end -}}
{{- if and $age (lt (include "kerf.milliseconds" $age | float64) 150000.0) -}}
{{- fail (printf "kerf.maxViewAge is %q, but a watch is confirmed only every two minutes: write 150s or more" $age) -}}
{{- end -}}
{{- $endpoint := tpl $settings.clusterEndpoint . -}}
{{- if and $endpoint (not (regexMatch "^https?://[^/]+" $endpoint)) -}}
{{- fail (printf "settings.clusterEndpoint is %q, which is not an absolute URL: write it like https://ABC.eks.amazonaws.com, or leave it empty for the endpoint from the EKS API" $endpoint) -}}
{{- end -}}
{{- $overhead := toString $settings.vmMemoryOverheadPercent -}}
{{- if not (regexMatch "^(|0([.][0-9]*)?|1([.]0*)?)$" $overhead) -}}
{{- fail (printf "settings.vmMemoryOverheadPercent is %q, which is not a fraction between 0 and 1: write 0.075 for 7.5 percent" $overhead) -}}
{{- end -}}
{{- if not (regexMatch "^[0-9]*$" (toString $settings.reservedENIs)) -}}
{{- fail (printf "settings.reservedENIs is %q, which is not a number of network interfaces: write 0 or more" (toString $settings.reservedENIs)) -}}
{{- end -}}
{{- range $name, $image := dict "kerf.image" .Values.kerf.image "kerf.page.image" .Values.kerf.page.image -}}
{{- if not (regexMatch "^(|sha256:[0-9a-f]{64})$" $image.digest) -}}
{{- fail (printf "%s.digest is %q, which is not a digest: write sha256: and 64 hexadecimal digits, or leave it empty and set %s.tag" $name $image.digest $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Converts a duration such as 1m30s into milliseconds. */}}
{{- define "kerf.milliseconds" -}}
{{- $units := dict "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 -}}
{{- $sum := 0.0 -}}
{{- range $part := regexFindAll "[0-9.]+(ms|s|m|h)" . -1 -}}
{{- $unit := regexFind "[a-z]+" $part -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit $part | float64) (get $units $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{- define "kerf.refusals.environment" -}}
{{- range .Values.controller.env -}}
{{- $value := toString .value | lower -}}
{{- if and (eq .name "DISABLE_LEADER_ELECTION") (has $value (list "true" "t" "1")) (gt (int $.Values.replicas) 1) -}}
{{- fail (printf "controller.env sets DISABLE_LEADER_ELECTION for %d replicas, which would all launch instances: set replicas to 1, or keep leader election enabled" (int $.Values.replicas)) -}}
{{- end -}}
{{- if and (eq .name "IGNORE_DRA_REQUESTS") (has $value (list "false" "f" "0")) -}}
{{- fail "controller.env sets IGNORE_DRA_REQUESTS to false, but Kerf does not plan for ResourceClaims: remove it" -}}
{{- end -}}
{{- if has .name (list "LEADER_ELECTION_NAME" "LEADER_ELECTION_NAMESPACE" "SYSTEM_NAMESPACE") -}}
{{- fail (printf "controller.env sets %s, but the chart's Role permits only the Lease karpenter-leader-election in the release's namespace: remove it" .name) -}}
{{- end -}}
{{- if and (eq .name "AWS_REGION") $.Values.kerf.region -}}
{{- fail "kerf.region and controller.env both set AWS_REGION: remove one of them" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Helm installs CRDs only with a new release. Without NodeUsages, the controller would wait without end. If NodePools are not served either,
there is no cluster: `helm template`.
*/}}
{{- define "kerf.refusals.cluster" -}}
{{- $served := .Capabilities.APIVersions -}}
{{- if and .Release.IsUpgrade ($served.Has "karpenter.sh/v1/NodePool") (not ($served.Has "kerf.sh/v1alpha1/NodeUsage")) -}}
{{- fail "the cluster has Karpenter's CRDs but no NodeUsages: upgrade the CRDs first, with the chart in controller/chart-crd (docs/install.md)" -}}
{{- end -}}
{{- end -}}
