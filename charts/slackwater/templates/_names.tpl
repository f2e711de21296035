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
{{- $_ := include "slackwater.repository" . -}}
{{ include "slackwater.imageReference" (dict "root" . "image" .Values.image) }}
{{- end -}}

{{- /* The manager's repository may be left out: then it is beside the other one. */ -}}
{{- define "slackwater.imageReference" -}}
{{- $repository := .image.repository | default (printf "%s-manager" (include "slackwater.repository" .root)) -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "slackwater.repository" -}}
{{- required "image.repository is missing: name the image that you built from this source and that your nodes can pull, such as registry.example.com/slackwater (docs/install.md); there is no public one" .Values.image.repository -}}
{{- end -}}

{{- define "slackwater.agentUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:slackwater-agent
{{- end -}}
