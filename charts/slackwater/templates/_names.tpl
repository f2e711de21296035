{{- /* Names are fixed, not made of the release's: there is one Slackwater in a cluster. */ -}}

{{- define "slackwater.labels" -}}
{{ include "slackwater.selector" . }}
app.kubernetes.io/part-of: slackwater
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end -}}

{{- define "slackwater.selector" -}}
app.kubernetes.io/name: slackwater
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "slackwater.image" -}}
{{ include "slackwater.imageReference" (dict "root" . "image" .Values.image) }}
{{- end -}}

{{- define "slackwater.imageReference" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "slackwater.agentUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:slackwater-agent
{{- end -}}
