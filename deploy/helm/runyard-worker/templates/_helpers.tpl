{{- define "runyard-worker.name" -}}
{{- printf "%s" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "runyard-worker.labels" -}}
app.kubernetes.io/name: runyard-worker
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "runyard-worker.selector" -}}
app.kubernetes.io/name: runyard-worker
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "runyard-worker.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "runyard-worker.secret" -}}
{{ .Values.worker.existingSecret | default (printf "%s-token" (include "runyard-worker.name" .)) }}
{{- end -}}

{{- define "runyard-worker.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "runyard-worker.name" .) }}
{{- end -}}
