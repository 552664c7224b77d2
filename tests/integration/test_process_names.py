"""Pods on process nodes find one another by name, as in the DNS of a cluster, and only their own peers."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, PODS, Object

from .local_plane import LocalPlane, local_plane

TIERS = ("net", "names", "plain")

#: Listens, and goes on once it has met every peer that it is told: all run this.
MEET = """
import os, socket, sys, time
own, port, peers = os.environ["OWN"], int(os.environ["PORT"]), os.environ["PEERS"].split()
listener = socket.create_server((sys.argv[1] if len(sys.argv) > 1 else own, port))
listener.settimeout(100)
def reach(peer):
    for _ in range(2000):
        try:
            return socket.create_connection((peer, port), 5)
        except OSError:
            time.sleep(0.05)
    sys.exit("cannot reach " + peer)
lines = [reach(peer) for peer in peers]
for line in lines:
    line.sendall(os.environ["TEAM"].encode() + b"\\n")
met = []
for _ in peers:
    accepted, _ = listener.accept()
    met.append(accepted.makefile().readline().strip())
print("host", socket.gethostname())
print("met", *sorted(met))
"""


def jobset(name: str, subdomain: str = "", bind: str = "", port: int = 29400, pods: int = 4) -> Object:
    """Single-pod Jobs that all meet all."""
    host = subdomain or name
    variables = {
        "TEAM": name,
        "PORT": str(port),
        "OWN": f"$(JOB).{host}",
        "PEERS": " ".join(f"{name}-w-{index}-0.{host}" for index in range(pods)),
    }
    index = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/job-index']"}}
    env: list[Object] = [
        {"name": "INDEX", "valueFrom": index},
        {"name": "JOB", "value": f"{name}-w-$(INDEX)-0"},
        *({"name": key, "value": value} for key, value in variables.items()),
    ]
    container = {
        "name": "c",
        "image": "python",
        "command": ["python", "-c", MEET, *([bind] if bind else [])],
        "env": env,
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"spec": {"parallelism": 1, "completions": 1, "completionMode": "Indexed", "template": template}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "replicatedJobs": [{"name": "w", "replicas": pods, "template": job}],
            **({"network": {"subdomain": subdomain}} if subdomain else {}),
        },
    }


async def complete(plane: LocalPlane, *names: str) -> dict[str, list[str]]:
    """Pod → its log, once these JobSets are complete."""

    async def done() -> bool:
        for name in names:
            found = await plane.verbs.get(JOB_SETS, name, "default")
            assert not meta.condition_is(found, "Failed"), await logs()
            if not meta.condition_is(found, "Completed"):
                return False
        return True

    async def logs() -> dict[str, list[str]]:
        pods = (await plane.verbs.list(PODS, "default")).items
        return {meta.name(pod): await plane.log(meta.name(pod)) for pod in pods}

    await plane.until(done, 150)
    return await logs()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.conformance("JS-E01")
async def test_the_pods_of_a_jobset_meet_by_name(tmp_path: Path, tier: str) -> None:
    async with local_plane(tmp_path, tier, capacity={"cpu": "16"}) as plane:
        await plane.verbs.create(JOB_SETS, jobset("js"), "default")
        logs = await complete(plane, "js")
        assert len(logs) == 4
        for pod, lines in logs.items():
            assert lines[-1] == "met js js js js"
            if tier != "plain":
                assert lines[0] == f"host {pod.rsplit('-', 1)[0]}"


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.conformance("JS-E02")
async def test_the_pods_of_a_jobset_meet_in_the_subdomain_that_it_names(tmp_path: Path, tier: str) -> None:
    async with local_plane(tmp_path, tier, capacity={"cpu": "16"}) as plane:
        await plane.verbs.create(JOB_SETS, jobset("js", "network-subdomain"), "default")
        logs = await complete(plane, "js")
        assert [lines[-1] for lines in logs.values()] == ["met js js js js"] * 4


async def test_two_jobsets_with_the_same_port_meet_their_own_peers_only(tmp_path: Path) -> None:
    """Even if all listen on every address of what they take for their machine."""
    async with local_plane(tmp_path, "net", capacity={"cpu": "16"}) as plane:
        await plane.verbs.create(JOB_SETS, jobset("one", bind="0.0.0.0", pods=3), "default")
        await plane.verbs.create(JOB_SETS, jobset("two", bind="0.0.0.0", pods=3), "default")
        logs = await complete(plane, "one", "two")
        assert len(logs) == 6
        for pod, lines in logs.items():
            team = pod.split("-")[0]
            assert lines[-1] == f"met {team} {team} {team}"


@pytest.mark.parametrize("tier", ["net", "names"])
async def test_host_name_hosts_file_environment_and_status_agree(tmp_path: Path, tier: str) -> None:
    script = (
        "import os,socket; h=socket.gethostname(); a=socket.gethostbyname(h);"
        "print(h, os.environ['HOSTNAME'], a, os.environ['IP'], socket.gethostbyname(h+'.svc'),"
        "socket.gethostbyname(h+'.svc.default.svc.cluster.local'), socket.gethostbyname('svc'))"
    )
    async with local_plane(tmp_path, tier) as plane:
        await plane.apply(f"""
apiVersion: v1
kind: Service
metadata: {{name: svc}}
spec: {{clusterIP: None, selector: {{app: x}}, publishNotReadyAddresses: true}}
---
apiVersion: v1
kind: Pod
metadata: {{name: p, labels: {{app: x}}}}
spec:
  restartPolicy: Never
  hostname: host-0
  subdomain: svc
  containers:
  - name: c
    image: python
    command: [sh, -c, 'for i in $$(seq 100); do python -c "$1" && exit 0; sleep 0.3; done; exit 1', sh]
    args: ["{script}"]
    env: [{{name: IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}]
""")
        ended = await plane.phase("p", "Succeeded", "Failed")
        address = ended["status"]["podIP"]
        assert (await plane.log("p"))[-1] == f"host-0 host-0 {address} {address} {address} {address} {address}"


@pytest.mark.parametrize("tier", TIERS)
async def test_a_pod_has_the_host_name_and_the_name_servers_that_it_asks_for(tmp_path: Path, tier: str) -> None:
    dns = "" if tier == "plain" else "dnsPolicy: None\n  dnsConfig: {nameservers: [192.0.2.1], searches: [lab.example]}"
    async with local_plane(tmp_path, tier) as plane:
        await plane.apply(f"""
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  restartPolicy: Never
  hostname: host-0
  subdomain: svc
  setHostnameAsFQDN: true
  {dns}
  containers:
  - name: c
    image: x
    command: [sh, -c, 'echo $HOSTNAME; cat /proc/sys/kernel/hostname /etc/resolv.conf']
""")
        await plane.phase("p", "Succeeded")
        name = "host-0.svc.default.svc.cluster.local"
        if tier == "plain":
            assert (await plane.log("p"))[0] == name
        else:
            assert await plane.log("p") == [name, name, "nameserver 192.0.2.1", "search lab.example"]


async def test_what_is_outside_of_the_network_is_told_to_be_unreachable_at_once(tmp_path: Path) -> None:
    """Nobody waits for a name server, which takes ten seconds, or for a machine that will never answer."""
    script = (
        "import socket, time; begun = time.monotonic()\n"
        "for what, asked in ((socket.gethostbyname, 'name.example'), (socket.create_connection, ('192.0.2.1', 80))):\n"
        "    try: what(asked)\n"
        "    except OSError as error: print(error)\n"
        "print(time.monotonic() - begun < 8)\n"
    )
    async with local_plane(tmp_path, "net") as plane:
        container = {"name": "c", "image": "python", "command": ["python", "-c", script]}
        spec = {"restartPolicy": "Never", "containers": [container]}
        await plane.verbs.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
        await plane.phase("p", "Succeeded")
        failed_lookup, failed_connection, soon = await plane.log("p")
        assert "name resolution" in failed_lookup
        assert "unreachable" in failed_connection
        assert soon == "True"
