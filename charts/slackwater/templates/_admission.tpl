{{- /* Whom the policies hold, and to which node: the one that the token was made for. A token that
       names none (made by hand, not for a pod) may change nothing. */ -}}
{{- define "slackwater.heldAgent" -}}
failurePolicy: Fail
matchConditions:
  - name: the-agent-asks
    expression: request.userInfo.username == {{ include "slackwater.agentUser" . | quote }}
{{- end -}}

{{- define "slackwater.heldRebalancer" -}}
failurePolicy: Fail
matchConditions:
  - name: the-rebalancer-asks
    expression: >-
      request.userInfo.username == "system:serviceaccount:{{ .Release.Namespace }}:slackwater-rebalancer"
{{- end -}}

{{- /* Each of the three by itself: what a policy of these holds goes by the account's own name. */ -}}
{{- define "slackwater.heldPrograms" -}}
failurePolicy: Fail
matchConditions:
  - name: a-program-of-ours-asks
    expression: >-
      request.userInfo.username in ["agent", "manager", "rebalancer"]
        .map(each, "system:serviceaccount:{{ .Release.Namespace }}:slackwater-" + each)
{{- end -}}

{{- define "slackwater.ownAccount" -}}
- name: account
  expression: request.userInfo.username.split(":")[3]
{{- end -}}

{{- define "slackwater.ownNode" -}}
- name: node
  expression: >-
    request.userInfo.?extra[?"authentication.kubernetes.io/node-name"][?0].orValue("")
{{- end -}}

{{- /* Two mappings are the same but for keys of ours. Objects are mappings to CEL once dyn hides their
       type, so this holds keys and fields that nobody has thought of yet. */ -}}
{{- define "slackwater.sameBut" -}}
{{ .now }}.all(key, key in {{ .ours }} || (key in {{ .was }} && {{ .was }}[key] == {{ .now }}[key]))
  && {{ .was }}.all(key, key in {{ .ours }} || key in {{ .now }})
{{- end -}}

{{- /* A pod that nobody of ours may evict or delete, and why; `pod` is where the expression has it. */ -}}
{{- define "slackwater.sparedPod" -}}
{{ .pod }}.spec.?priority.orValue(0) >= 2000000000 ? "critical"
  : "kubernetes.io/config.mirror" in {{ .pod }}.metadata.?annotations.orValue({}) ? "static"
  : {{ .pod }}.metadata.?ownerReferences.orValue([]).exists(each, each.kind == "Node") ? "static"
  : {{ .pod }}.metadata.?ownerReferences.orValue([]).exists(each, each.kind == "DaemonSet") ? "a DaemonSet's"
  : ""
{{- end -}}

{{- define "slackwater.admissionBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "slackwater.labels" (dict "root" .root "component" (.component | default "agent")) | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end -}}
