{{- /* All cgroups of the node; read-only but for the named folders, if any are named. */ -}}
{{- define "slackwater.cgroupMounts" -}}
- name: cgroup
  mountPath: /host/sys/fs/cgroup
  {{- if .writable }}
  # cgroup v1 is a mount for each controller below this one.
  readOnly: true
  recursiveReadOnly: IfPossible
  {{- end }}
{{- range $number, $path := .writable }}
- name: writable-{{ $number }}
  mountPath: /host/sys/fs/cgroup/{{ $path }}
{{- end }}
{{- end -}}

{{- define "slackwater.cgroupVolumes" -}}
# /sys is the node's own in every container, so it is not mounted again.
- name: cgroup
  hostPath: {path: {{ .cgroup }}, type: Directory}
{{- $root := .cgroup }}
{{- range $number, $path := .writable }}
- name: writable-{{ $number }}
  hostPath: {path: {{ $root }}/{{ $path }}, type: Directory}
{{- end }}
{{- end -}}
