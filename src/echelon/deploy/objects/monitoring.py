"""Metrics: the Services that name them, what the Prometheus operator reads, and a dashboard.

The dashboard is a ConfigMap that Grafana's sidecar finds by its label; the operator's kinds are made only where they
are served.
"""

from __future__ import annotations

import msgspec

from ...api.scheme import CONFIG_MAPS, SERVICES, Object, Resource
from ..options import SCHEDULER, InstallOptions
from .labelled import full_name, made, selector
from .programs import METRICS_PORT

OPERATOR_GROUP = "monitoring.coreos.com"
SERVICE_MONITORS = Resource(OPERATOR_GROUP, "v1", "servicemonitors", "ServiceMonitor", builtin=False)
PROMETHEUS_RULES = Resource(OPERATOR_GROUP, "v1", "prometheusrules", "PrometheusRule", builtin=False)
_DASHBOARD = "grafana_dashboard"


def metrics_service(part: str, options: InstallOptions) -> Object:
    port = {"name": "metrics", "port": METRICS_PORT, "protocol": "TCP", "targetPort": "metrics"}
    spec = {"type": "ClusterIP", "selector": selector(options, part), "ports": [port]}
    return made(SERVICES, full_name(part), options, part=part, spec=spec)


def service_monitor(part: str, options: InstallOptions) -> Object:
    spec = {
        "selector": {"matchLabels": selector(options, part)},
        "endpoints": [{"port": "metrics", "interval": "30s"}],
    }
    return made(SERVICE_MONITORS, full_name(part), options, part=part, spec=spec)


def prometheus_rule(options: InstallOptions) -> Object:
    alerts = [_down(part) for part in options.parts] + [_alert(*row) for row in _ALERTS_OF_ALL]
    if SCHEDULER in options.parts:
        alerts += [_alert(*row) for row in _ALERTS_OF_SCHEDULER]
    return made(PROMETHEUS_RULES, "echelon", options, spec={"groups": [{"name": "echelon", "rules": alerts}]})


def _down(part: str) -> Object:
    job = full_name(part)
    return _alert(
        f"Echelon{part.capitalize()}Down", f'absent(up{{job="{job}"}} == 1)', "5m", "critical",
        f"No {part} of Echelon answers", f"kubectl get pods,events in its namespace tell why; Deployment {job}.",
    )  # fmt: skip


#: Name, expression, for how long, severity, summary, description.
_AlertRow = tuple[str, str, str, str, str, str]
_ALERTS_OF_ALL: tuple[_AlertRow, ...] = (
    (
        "EchelonNoLeader", 'max by (name) (leader_election_master_status{name=~"echelon-.*"}) == 0', "5m", "critical",
        "Replicas run and none of them leads", "The lease of that name in kube-system is held by none of them.",
    ),
    (
        "EchelonObjectsSetAside",
        # The first failure brings the series with it, and no increase.
        "(echelon_objects_set_aside_total unless echelon_objects_set_aside_total offset 15m) > 0"
        " or increase(echelon_objects_set_aside_total[15m]) > 0",
        "1m", "warning",
        "An object makes a component fail and is set aside",
        "kubectl get events -A --field-selector reason=SetAside names it; everything else goes on.",
    ),
    (
        "EchelonConfigRefused", "echelon_config_last_reload_successful == 0", "5m", "warning",
        "The config file has a mistake and is not used", "The old configuration stays; the log has line and key.",
    ),
)  # fmt: skip
_ALERTS_OF_SCHEDULER: tuple[_AlertRow, ...] = (
    (
        "EchelonBindingsRefused",
        'rate(echelon_scheduler_bindings_total{result="refused"}[10m])'
        " > ignoring(result) 0.1 * sum without(result) (rate(echelon_scheduler_bindings_total[10m]))",
        "10m", "warning", "More than a tenth of the bindings are refused",
        "Another scheduler may fill the same nodes, or the API server is overloaded.",
    ),
    (
        "EchelonPodsWaitLong", "max by (type) (echelon_scheduler_oldest_pending_seconds) > 86400", "10m", "info",
        "Something waits for more than a day", "kubectl get podgroups -A; echelon tree says what it waits for.",
    ),
    (
        "EchelonSlowToSchedule",
        "histogram_quantile(0.95, sum by (le, size)"
        " (rate(echelon_scheduler_time_to_schedule_seconds_bucket[1h]))) > 3600",
        "1h", "info", "One in twenty waits more than an hour until it is bound",
        "The label size says of how many pods; the cluster is too small, or something blocks.",
    ),
    (
        "EchelonDevicesIdle", "sum by (resource) (rate(echelon_scheduler_idle_device_seconds_total[30m])) > 8", "1h",
        "warning", "Devices are idle while groups wait for them",
        "The value is their average number; they are not where a group could use them.",
    ),
    (
        "EchelonWorkLost",
        "sum by (resource) (increase(echelon_scheduler_preempted_device_seconds_total[1d])) > 691200", "10m", "info",
        "Preemption ended work worth more than eight devices for a day",
        "The value is in device seconds; checkpoints may have saved some of it.",
    ),
    (
        "EchelonReservationHeldLong", "max(echelon_scheduler_oldest_reservation_seconds) > 7200", "10m", "info",
        "Capacity is reserved for one group for more than two hours",
        "Pods on the reserved nodes end slowly; others wait meanwhile.",
    ),
    (
        "EchelonSearchesEndEarly", 'rate(echelon_scheduler_verdicts_total{verdict="exhausted"}[30m]) > 0.1', "30m",
        "info", "Searches for placements end with their step budget",
        "Mixed pods in one gang make searches long; equal pods are always decided.",
    ),
)  # fmt: skip


def _alert(name: str, expression: str, lasting: str, severity: str, summary: str, description: str) -> Object:
    return {
        "alert": name,
        "expr": expression,
        "for": lasting,
        "labels": {"severity": severity},
        "annotations": {
            "summary": summary,
            "description": description,
            # A path in the documentation: where that is served is not known here.
            "runbook": f"docs/runbooks/{name}.md",
        },
    }


_PANELS: tuple[tuple[str, str, str], ...] = (
    ("Pods that wait, by queue", "sum by (queue) (scheduler_pending_pods)", "short"),
    ("Groups that wait, by queue", 'sum by (queue) (scheduler_queued_entities{type!="pod"})', "short"),
    ("Oldest that waits", "max by (type) (echelon_scheduler_oldest_pending_seconds)", "s"),
    (
        "From known to bound, 95th percentile",
        "histogram_quantile(0.95, sum by (le) (rate(scheduler_pod_scheduling_sli_duration_seconds_bucket[5m])))",
        "s",
    ),
    (
        "From created to bound by pods of the tree, 95th percentile",
        "histogram_quantile(0.95, sum by (le, size) (rate(echelon_scheduler_time_to_schedule_seconds_bucket[30m])))",
        "s",
    ),
    (
        "Idle devices while groups wait for them",
        "sum by (resource) (rate(echelon_scheduler_idle_device_seconds_total[5m]))",
        "short",
    ),
    ("Bindings per second", "sum by (result) (rate(echelon_scheduler_bindings_total[5m]))", "ops"),
    ("Verdicts per second", "sum by (verdict) (rate(echelon_scheduler_verdicts_total[5m]))", "ops"),
    ("Pods evicted per second", "sum(rate(echelon_scheduler_pods_evicted_total[5m]))", "ops"),
    (
        "Device hours lost to preemption, per hour",
        "sum by (resource) (increase(echelon_scheduler_preempted_device_seconds_total[1h])) / 3600",
        "short",
    ),
    ("Age of the oldest reservation", "max(echelon_scheduler_oldest_reservation_seconds)", "s"),
    ("Who leads", "max by (pod, name) (leader_election_master_status)", "short"),
    ("Memory", "sum by (pod) (process_resident_memory_bytes)", "bytes"),
)


def dashboard(options: InstallOptions) -> Object:
    """All panels, two in a row; the data source is chosen in Grafana."""
    source = {"type": "prometheus", "uid": "${source}"}
    panels = [
        {
            "id": number + 1,
            "title": title,
            "type": "timeseries",
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [{"refId": "A", "expr": expression, "datasource": source}],
        }
        for number, (title, expression, unit) in enumerate(_PANELS)
    ]
    content = {
        "uid": "echelon",
        "title": "Echelon",
        "tags": ["echelon"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }
    text = msgspec.json.format(msgspec.json.encode(content), indent=1).decode()
    found = made(CONFIG_MAPS, "echelon-dashboard", options, data={"echelon.json": text + "\n"})
    found["metadata"]["labels"][_DASHBOARD] = "1"
    return found
