{{- define "runyard-server.name" -}}
{{- printf "%s" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "runyard-server.labels" -}}
{{ include "runyard-server.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "runyard-server.selector" -}}
app.kubernetes.io/name: runyard-server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "runyard-server.apiUrl" -}}
{{ .Values.embedded.publicUrl | default (printf "http://%s.%s.svc:54321" (include "runyard-server.name" .) .Release.Namespace) }}
{{- end -}}
