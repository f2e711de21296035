{{- /* What a rebalancer's pod is, whether a Job's or a Deployment's: everything but how it ends. The
       names of Prometheus and of brokers are the cluster's, so its DNS is used. */ -}}
{{- define "slackwater.rebalancerPod" -}}
{{- $rebalancer := .Values.rebalancer -}}
serviceAccountName: slackwater-rebalancer
enableServiceLinks: false
{{- with include "slackwater.imagePull" . }}
{{ . }}
{{- end }}
{{- with $rebalancer.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if $rebalancer.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
terminationGracePeriodSeconds: {{ $rebalancer.terminationGracePeriodSeconds }}
securityContext:
  {{- include "slackwater.restrictedPod" . | nindent 2 }}
{{- if or $rebalancer.settings $rebalancer.extraVolumes }}
volumes:
  {{- if $rebalancer.settings }}
  - name: settings
    configMap: {name: slackwater-rebalancer}
  {{- end }}
  {{- with $rebalancer.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with $rebalancer.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $rebalancer.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $rebalancer.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Its arguments, after those of the mode. */ -}}
{{- define "slackwater.rebalancerArguments" -}}
{{- $rebalancer := .Values.rebalancer -}}
{{- if $rebalancer.settings }}
- --file=/etc/slackwater/settings.yaml
{{- end }}
{{- range $rebalancer.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "slackwater.rebalancerSurroundings" -}}
{{- $rebalancer := .Values.rebalancer -}}
env:
  - name: POD_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- with include "slackwater.apiServer" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $rebalancer.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources:
  {{- toYaml $rebalancer.resources | nindent 2 }}
securityContext:
  {{- include "slackwater.restrictedContainer" . | nindent 2 }}
{{- if or $rebalancer.settings $rebalancer.extraVolumeMounts }}
volumeMounts:
  {{- if $rebalancer.settings }}
  - {name: settings, mountPath: /etc/slackwater, readOnly: true}
  {{- end }}
  {{- with $rebalancer.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* Where it is bound: a JSON list, empty for the whole cluster. Said by rebalancer.namespaces, else by the
       settings; nowhere said, it is not installed. */ -}}
{{- define "slackwater.rebalancerNamespaces" -}}
{{- $rebalancer := .Values.rebalancer -}}
{{- $settings := $rebalancer.settings | default dict -}}
{{- $removal := dig "removal" "" $settings -}}
{{- if and (eq $removal "delete") (not $rebalancer.allowDelete) -}}
{{- fail "rebalancer.settings.removal is delete, past disruption budgets: that needs rebalancer.allowDelete=true as well" -}}
{{- end -}}
{{- if and (eq $removal "evict") $rebalancer.allowDelete -}}
{{- fail "rebalancer.allowDelete is true, but rebalancer.settings.removal is evict: with it pods may be deleted and not evicted" -}}
{{- end -}}
{{- $found := $rebalancer.namespaces | default list -}}
{{- if and $found $rebalancer.clusterWide -}}
{{- fail "rebalancer.namespaces names namespaces, but rebalancer.clusterWide is true: choose one" -}}
{{- end -}}
{{- if not (or $found $rebalancer.clusterWide) -}}
{{- $default := dig "defaults" "namespace" "" $settings -}}
{{- range $settings.workloads -}}
{{- $found = append $found (.namespace | default $default | default "default") -}}
{{- end -}}
{{- $found = append $found $default | compact | uniq -}}
{{- if not $found -}}
{{- fail "rebalancer.namespaces is empty and rebalancer.settings names no namespace: say where it may work, or rebalancer.clusterWide=true" -}}
{{- end -}}
{{- end -}}
{{- if has "kube-system" $found -}}
{{- fail "rebalancer.namespaces has kube-system, where nothing is rotated" -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}
