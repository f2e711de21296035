{{- /* Whom the policies hold, and to which node: the one that the token was made for. A token that
       names none (made by hand, not for a pod) may change nothing. */ -}}
{{- define "slackwater.heldAgent" -}}
failurePolicy: Fail
matchConditions:
  - name: the-agent-asks
    expression: request.userInfo.username == {{ include "slackwater.agentUser" . | quote }}
{{- end -}}

{{- define "slackwater.ownNode" -}}
- name: node
  expression: >-
    request.userInfo.?extra[?"authentication.kubernetes.io/node-name"][?0].orValue("")
{{- end -}}

{{- define "slackwater.admissionBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "slackwater.labels" (dict "root" .root "component" "agent") | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end -}}
