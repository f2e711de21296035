{{- /* The address to listen on: an IP address and a port, IPv6 in brackets. In the host's network
       nobody but the node itself shall reach it, unless somebody says so. */ -}}
{{- define "slackwater.listenAddress" -}}
{{- .listen.address | default (ternary "127.0.0.1" "0.0.0.0" .hostNetwork) -}}
{{- end -}}

{{- define "slackwater.listen" -}}
{{- $address := include "slackwater.listenAddress" . -}}
{{- $host := ternary (printf "[%s]" $address) $address (contains ":" $address) -}}
{{- printf "%s:%d" $host (int .listen.port) -}}
{{- end -}}

{{- /* The API server must reach it, also in the host's network. */ -}}
{{- define "slackwater.webhookListen" -}}
{{- $address := .listen.address | default "0.0.0.0" -}}
{{- $host := ternary (printf "[%s]" $address) $address (contains ":" $address) -}}
{{- printf "%s:%d" $host (int .webhook.port) -}}
{{- end -}}

{{- /* The kubelet asks the pod's address; what listens on loopback it must ask there. */ -}}
{{- define "slackwater.probes" -}}
{{- $address := include "slackwater.listenAddress" . -}}
{{- $host := ternary "" $address (or (eq $address "0.0.0.0") (eq $address "::")) -}}
startupProbe:
  httpGet:
    path: /healthz
    port: {{ .listen.port }}
    {{- with $host }}
    host: {{ . | quote }}
    {{- end }}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ .listen.port }}
    {{- with $host }}
    host: {{ . | quote }}
    {{- end }}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ .listen.port }}
    {{- with $host }}
    host: {{ . | quote }}
    {{- end }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- define "slackwater.apiServer" -}}
{{- with .Values.apiServer.host -}}
- name: KUBERNETES_SERVICE_HOST
  value: {{ . | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ $.Values.apiServer.port | quote }}
{{- end -}}
{{- end -}}

{{- /* For programs that need nothing of the node: Pod Security's level "restricted". */ -}}
{{- define "slackwater.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "slackwater.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "slackwater.imagePull" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}
