"""No pod on a process node gets at the files of another one, by accident or by a trick, and none is left behind."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from echelon.agents.process import process_nodes
from echelon.agents.process.pod_directories import PodDirectory
from echelon.agents.process.shim.mounts import open_source
from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import PODS, VOLUME_CLAIMS, Object

from .local_plane import LocalPlane, local_plane, processes_of, the_container

TIERS = ("net", "names", "plain")
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {token: hidden}
---
"""

CLAIM = """
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def pod(name: str, script: str, mounts: str = "", volumes: str = "") -> str:
    """`mounts` and `volumes` are lists in YAML, on one line."""
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  volumes: [{volumes}]
  containers:
  - name: c
    image: x
    command: [sh, -c, '{script}']
    volumeMounts: [{mounts}]
"""


async def said(plane: LocalPlane, name: str) -> list[str]:
    """The log of a pod that has ended well."""
    ended = await plane.phase(name, "Succeeded", "Failed")
    assert ended["status"]["phase"] == "Succeeded", (ended["status"], await plane.log(name))
    return await plane.log(name)


@pytest.mark.parametrize("tier", TIERS)
async def test_volumes_of_the_same_name_are_not_shared_between_pods(tmp_path: Path, tier: str) -> None:
    async with local_plane(tmp_path, tier) as plane:
        mount, volume = "{name: v, mountPath: /echelon-v}", "{name: v, emptyDir: {}}"
        await plane.apply(pod("one", "echo one > /echelon-v/file; sleep 1000", mount, volume))
        await plane.phase("one", "Running")
        await plane.apply(pod("two", "ls /echelon-v; echo two > /echelon-v/file; cat /echelon-v/file", mount, volume))
        assert await said(plane, "two") == ["two"]


@pytest.mark.parametrize("tier", ["net", "names"])
async def test_a_pod_does_not_see_the_files_of_other_pods(tmp_path: Path, tier: str) -> None:
    """Though it runs as the same user, whose files it sees; also not if its root is a copy."""
    async with local_plane(tmp_path, tier) as plane:
        await plane.apply(
            SECRET
            + pod(
                "keeper",
                "sleep 1000",
                "{name: s, mountPath: /echelon-s}, {name: p, mountPath: /echelon-p}",
                "{name: s, secret: {secretName: keys}}, {name: p, persistentVolumeClaim: {claimName: data}}",
            )
            + CLAIM
        )
        await plane.phase("keeper", "Running")
        secrets = _found(tmp_path, "pods/*/volumes/s/token")
        assert [path.read_text() for path in secrets] == ["hidden"]
        look = (
            f"ls {tmp_path}/pods {tmp_path}/claims {tmp_path}/network 2>/dev/null | grep -v :; cat {secrets[0]}; true"
        )
        await plane.apply(pod("plain", look))
        await plane.apply(
            pod("copied", look + "; cat /echelon-t/token", "{name: t, mountPath: /echelon-t}",
                "{name: t, secret: {secretName: keys}}")
        )  # fmt: skip
        for name in ("plain", "copied"):
            lines = [line for line in await said(plane, name) if line]
            told = f"cat: {secrets[0]}: No such file or directory"
            assert sorted(lines) == sorted([told, *(["hidden"] if name == "copied" else [])])


@pytest.mark.parametrize("tier", ["net", "names"])
async def test_a_pod_does_not_look_around_what_is_hidden(
    tmp_path: Path, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not through the first process of its pod, not as root that takes mounts away, and not at what is made later."""
    monkeypatch.setenv("ECHELON_TEST_SECRET", "of-echelon")
    data = tmp_path / "data"
    async with local_plane(data, tier) as plane:
        look = (
            f"exec 2>/dev/null; cat /proc/1/environ; ls /proc/1/root{data} /proc/1/cwd/; readlink /proc/1/fd/*; "
            f"umount {data} && ls {data}; unshare -m umount {data} && echo unmounted; "
            f"while ! test -e {tmp_path}/later; do sleep 0.05; done; ls -A {data}; echo over"
        )
        await plane.apply(pod("p", look))
        await plane.phase("p", "Running")
        (data / "kubeconfig.new").write_text("made later")
        (data / "kubeconfig.new").rename(data / "kubeconfig")
        (data / "claims").mkdir(exist_ok=True)
        (tmp_path / "later").touch()
        assert await said(plane, "p") == ["over"]


CLIMB = """
import os, sys
os.makedirs("/tmp/below", exist_ok=True)
os.chroot("/tmp/below")
for _ in range(100):
    os.chdir("..")
os.chroot(".")
print(os.listdir("%s"), os.path.exists("%s"))
"""


@pytest.mark.parametrize("tier", ["net", "names"])
async def test_a_pod_does_not_climb_out_of_its_root(tmp_path: Path, tier: str) -> None:
    """Containers may change their root, as in container runtimes."""
    data = tmp_path / "data"
    async with local_plane(data, tier) as plane:
        (tmp_path / "climb.py").write_text(CLIMB % (data, data / "pki"))
        assert (data / "pods").parent.exists()
        mount, volume = "{name: v, mountPath: /echelon-v}", "{name: v, emptyDir: {}}"
        await plane.apply(pod("p", f"python {tmp_path}/climb.py", mount, volume))
        assert await said(plane, "p") == ["[] False"]


async def test_files_of_pods_and_claims_are_closed_to_other_users(tmp_path: Path) -> None:
    volumes = (
        "{name: s, secret: {secretName: keys, defaultMode: 0600}}, {name: p, persistentVolumeClaim: {claimName: data}}"
    )
    mounts = "{name: s, mountPath: /echelon-s}, {name: p, mountPath: /echelon-p}"
    async with local_plane(tmp_path / "data", "names") as plane:
        await plane.apply(SECRET + pod("p", "stat -L -c %a /echelon-s/token; sleep 1000", mounts, volumes) + CLAIM)
        await plane.phase("p", "Running")
        assert await plane.until(lambda: plane.log("p")) == ["600"]
        uid = meta.uid(await plane.pod("p"))
        for path in (tmp_path / "data" / "pods" / uid, tmp_path / "data" / "claims"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
        sockets = [path for path in (tmp_path / "data" / "pods").rglob("*") if path.is_socket()]
        assert sockets
        assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in sockets)


async def test_what_a_claim_holds_stays_while_a_pod_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever deletes the claim of a training that runs does not take its checkpoints away."""
    monkeypatch.setattr(process_nodes, "VOLUME_SECONDS", 0.1)
    mount, volume = "{name: p, mountPath: /echelon-p}", "{name: p, persistentVolumeClaim: {claimName: data}}"
    script = "cd /echelon-p; echo kept > file; echo up; until test -e end; do sleep 0.05; done; cat file"
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(pod("p", script, mount, volume) + CLAIM)
        await plane.phase("p", "Running")
        await plane.until(lambda: plane.log("p"))
        (held,) = (tmp_path / "claims" / "default").iterdir()
        await plane.verbs.delete(VOLUME_CLAIMS, "data", "default")
        await plane.gone(VOLUME_CLAIMS, "data")
        await asyncio.sleep(0.5)
        assert (held / "file").read_text() == "kept\n"
        (held / "end").touch()
        assert await said(plane, "p") == ["up", "kept"]

        async def is_gone() -> bool:
            return not held.exists()

        await plane.until(is_gone)


async def test_what_a_deleted_claim_holds_goes_with_the_last_pod_when_echelon_stops(tmp_path: Path) -> None:
    mount, volume = "{name: p, mountPath: /echelon-p}", "{name: p, persistentVolumeClaim: {claimName: data}}"
    async with local_plane(tmp_path, "names") as plane:
        await plane.apply(pod("p", "echo kept > /echelon-p/file; echo up; exec sleep 1000", mount, volume) + CLAIM)
        await plane.phase("p", "Running")
        await plane.until(lambda: plane.log("p"))
        (held,) = (tmp_path / "claims" / "default").iterdir()
        await plane.verbs.delete(VOLUME_CLAIMS, "data", "default")
        await plane.gone(VOLUME_CLAIMS, "data")
        assert (held / "file").exists()
    assert not held.exists()


@pytest.mark.parametrize("tier", ["net", "names"])
async def test_files_made_from_objects_cannot_be_changed_by_the_container(tmp_path: Path, tier: str) -> None:
    script = "rm -f /echelon-s/token; ln -sfn / /echelon-s/..data; echo x > /echelon-s/x; cat /echelon-s/token"
    async with local_plane(tmp_path, tier) as plane:
        volume = "{name: s, secret: {secretName: keys}}"
        await plane.apply(SECRET + pod("p", script, "{name: s, mountPath: /echelon-s}", volume))
        lines = await said(plane, "p")
        assert sum("Read-only file system" in line for line in lines) == 3
        assert lines[-1] == "hidden"


async def test_a_claim_belongs_to_its_namespace(tmp_path: Path) -> None:
    """A claim of the same name in another namespace is another directory; one that is not there holds the pod."""
    async with local_plane(tmp_path, "names") as plane:
        claim: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await plane.apply("{apiVersion: v1, kind: Namespace, metadata: {name: other}}")
        await plane.verbs.create(VOLUME_CLAIMS, claim, "other")
        mount, volume = "{name: v, mountPath: /echelon-v}", "{name: v, persistentVolumeClaim: {claimName: data}}"
        await plane.apply(pod("p", "ls /echelon-v", mount, volume))
        await plane.told("p", '"data" not found')
        assert (await plane.pod("p"))["status"]["phase"] == "Pending"
        await plane.verbs.create(VOLUME_CLAIMS, claim, "default")
        assert await said(plane, "p") == []
        assert sorted(path.name for path in (tmp_path / "claims").iterdir()) == ["default"]


@pytest.mark.parametrize("tier", TIERS)
async def test_a_sub_path_does_not_lead_out_of_its_volume(tmp_path: Path, tier: str) -> None:
    """By a symbolic link that another container has put there."""
    async with local_plane(tmp_path / "data", tier) as plane:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "file").write_text("mine")
        text = pod(
            "p",
            "cat /echelon-in/file",
            "{name: v, mountPath: /echelon-in, subPath: way}",
            "{name: v, emptyDir: {}}",
        ).replace(
            "  containers:",
            "  initContainers:\n"
            f"  - {{name: i, image: x, command: [sh, -c, 'ln -s {outside} /echelon-v/way'], "
            "volumeMounts: [{name: v, mountPath: /echelon-v}]}\n  containers:",
        )
        await plane.apply(text)
        state = await plane.waiting("p", "CreateContainerConfigError")
        assert "leads out of its volume" in state["state"]["waiting"]["message"]


@pytest.mark.parametrize("tier", TIERS)
async def test_nothing_is_made_outside_of_a_volume_for_a_sub_path(tmp_path: Path, tier: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with local_plane(tmp_path / "data", tier) as plane:
        text = pod(
            "p", "ls /echelon-in", "{name: v, mountPath: /echelon-in, subPath: way/new}", "{name: v, emptyDir: {}}"
        ).replace(
            "  containers:",
            "  initContainers:\n"
            f"  - {{name: i, image: x, command: [sh, -c, 'ln -s {outside} /echelon-v/way'], "
            "volumeMounts: [{name: v, mountPath: /echelon-v}]}\n  containers:",
        )
        await plane.apply(text)
        state = await plane.waiting("p", "CreateContainerConfigError")
        assert "leads out of its volume" in state["state"]["waiting"]["message"]
    assert list(outside.iterdir()) == []


def test_a_link_that_came_in_the_way_of_a_mount_is_not_followed(tmp_path: Path) -> None:
    """Between the look of the agent and the mount of the shim, by another container of the pod."""
    (tmp_path / "volume" / "sub").mkdir(parents=True)
    path = os.path.realpath(tmp_path / "volume" / "sub")
    os.close(open_source(path))
    (tmp_path / "volume" / "sub").rmdir()
    (tmp_path / "volume" / "sub").symlink_to("/etc")
    for there in (path, f"{path}/passwd"):
        with pytest.raises(OSError, match="symbolic link"):
            open_source(there)


@pytest.mark.parametrize(
    ("mounts", "volumes", "field"),
    [
        ("{name: v, mountPath: /v, subPath: ../x}", "{name: v, emptyDir: {}}", "volumeMounts[0].subPath"),
        ("{name: v, mountPath: /v, subPath: /etc}", "{name: v, emptyDir: {}}", "volumeMounts[0].subPath"),
        ("{name: v, mountPath: /v, subPathExpr: ../$(X)}", "{name: v, emptyDir: {}}", "volumeMounts[0].subPathExpr"),
        (
            "{name: v, mountPath: /v}",
            "{name: v, configMap: {name: c, items: [{key: a, path: ../../a}]}}",
            "volumes[0].configMap.items[0].path",
        ),
        (
            "{name: v, mountPath: /v}",
            "{name: v, secret: {secretName: c, items: [{key: a, path: /etc/a}]}}",
            "volumes[0].secret.items[0].path",
        ),
        (
            "{name: v, mountPath: /v}",
            "{name: v, projected: {sources: [{serviceAccountToken: {path: ../token}}]}}",
            "volumes[0].projected.sources[0].serviceAccountToken.path",
        ),
        (
            "{name: v, mountPath: /v}",
            "{name: v, downwardAPI: {items: [{path: ../n, fieldRef: {fieldPath: metadata.name}}]}}",
            "volumes[0].downwardAPI.items[0].path",
        ),
        ("{name: v, mountPath: /v}, {name: v, mountPath: /v}", "{name: v, emptyDir: {}}", "volumeMounts[1].mountPath"),
        ("{name: ../v, mountPath: /v}", "{name: ../v, emptyDir: {}}", "volumes[0].name"),
        ("{name: v, mountPath: /v}", "{name: v, hostPath: {path: /a/../b}}", "volumes[0].hostPath.path"),
        ("{name: v, mountPath: /v}", "{name: v, secret: {secretName: c, defaultMode: 4096}}", "secret.defaultMode"),
    ],
)
async def test_paths_that_lead_elsewhere_are_refused_at_creation(
    tmp_path: Path, mounts: str, volumes: str, field: str
) -> None:
    async with local_plane(tmp_path, "plain") as plane:
        with pytest.raises(ApiError) as refused:
            await plane.apply(pod("p", "true", mounts, volumes))
        assert refused.value.code == 422
        assert field in refused.value.message


async def test_a_name_that_leads_elsewhere_is_no_container(tmp_path: Path) -> None:
    async with local_plane(tmp_path, "plain") as plane:
        with pytest.raises(ApiError) as refused:
            await plane.apply(pod("p", "true").replace("name: c\n", "name: ../../c\n"))
        assert refused.value.code == 422


def test_removing_a_pod_does_not_touch_what_its_links_lead_to(tmp_path: Path) -> None:
    """And takes directories that the pod has closed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    (outside / "file").chmod(0o444)
    directory = PodDirectory(tmp_path / "pods" / "uid")
    volume = directory.volume("v")
    (volume / "closed" / "deep").mkdir(parents=True)
    (volume / "closed" / "deep" / "file").touch()
    (volume / "closed" / "link").symlink_to(outside / "file")
    (volume / "closed" / "folder").symlink_to(outside)
    (volume / "closed" / "deep").chmod(0)
    (volume / "closed").chmod(0o500)
    directory.remove()
    assert not directory.path.exists()
    assert (outside / "file").read_text() == "mine"
    assert stat.S_IMODE((outside / "file").stat().st_mode) == 0o444
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755


async def test_a_termination_log_that_is_no_file_holds_nobody_up(tmp_path: Path) -> None:
    """Where nothing can be mounted the container sees the real path, and may put anything there."""
    async with local_plane(tmp_path, "plain") as plane:
        hostile = "rm /dev/termination-log; mkfifo /dev/termination-log"
        await plane.apply(pod("fifo", hostile))
        await plane.apply(pod("link", "rm /dev/termination-log; ln -s /etc/passwd /dev/termination-log"))
        for name in ("fifo", "link"):
            ended = await plane.phase(name, "Succeeded")
            assert "message" not in the_container(ended)["state"]["terminated"]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.conformance("API-127")
async def test_daemons_that_hide_end_with_their_container(tmp_path: Path, tier: str) -> None:
    """They leave their session and their parent, ignore SIGTERM and clear their environment."""
    async with local_plane(tmp_path / "data", tier) as plane:
        told = tmp_path / "daemon"
        inner = f'trap "" TERM; readlink /proc/self > {told}; exec sleep 4321.{os.getpid()}'
        script = f'(env -i setsid sh -c "{inner.replace(chr(34), chr(92) + chr(34))}" &); while ! test -s {told}; do sleep 0.05; done'  # noqa: E501
        (made,) = await plane.apply(pod("p", script))
        await said(plane, "p")
        assert not _sleepers()
        await plane.delete("p")
        await plane.gone(PODS, "p")
        assert processes_of(meta.uid(made)) == []


def _sleepers() -> list[int]:
    wanted = f"4321.{os.getpid()}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("tier", TIERS)
async def test_a_container_that_forks_without_end_is_stopped(tmp_path: Path, tier: str) -> None:
    """Each process starts two more, in sessions of their own, and ends; at most a few dozen at a time."""
    script = f"""
import os, time
def grow():
    while True:
        if os.fork() == 0:
            os.setsid()
            if os.path.exists("{tmp_path}/enough"): os._exit(0)
            time.sleep(0.02)
            continue
        os._exit(0)
for _ in range(10):
    if os.fork() == 0: grow()
print("ready", flush=True)
time.sleep(1000)
"""
    (tmp_path / "bomb.py").write_text(script)
    async with local_plane(tmp_path / "data", tier) as plane:
        try:
            (made,) = await plane.apply(pod("p", f"exec python {tmp_path}/bomb.py"))
            await plane.phase("p", "Running")
            await plane.until(lambda: plane.log("p"))
            await plane.delete("p", grace=0 if tier == "net" else 1)
            await plane.gone(PODS, "p")
            await plane.files_gone(meta.uid(made))
            assert processes_of(meta.uid(made)) == []
        finally:
            (tmp_path / "enough").touch()


def _found(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


NO_RIGHTS = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: c
    image: x
    command:
    - sh
    - -c
    - until [ -e /echelon-v/told ]; do sleep 0.1; done; cat /echelon-v/hook; grep -E "$RIGHTS" /proc/self/status
    env: [{name: RIGHTS, value: "CapEff|CapBnd|NoNewPrivs"}]
    volumeMounts: [{name: v, mountPath: /echelon-v}]
    lifecycle:
      postStart:
        exec:
          command: [sh, -c, 'grep -E "$RIGHTS" /proc/self/status > /echelon-v/hook; touch /echelon-v/told']
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [%s]}}
"""


@pytest.mark.parametrize(
    ("tier", "dropped", "kept"),
    [("net", "ALL", 0), ("names", "ALL", 0), ("net", "NET_RAW, CAP_CHOWN", 0xA80425FB & ~(1 << 13) & ~1)],
)
async def test_containers_and_what_runs_in_them_have_the_rights_of_their_security_context(
    tmp_path: Path, tier: str, dropped: str, kept: int
) -> None:
    async with local_plane(tmp_path, tier) as plane:
        await plane.apply(NO_RIGHTS % dropped)
        told = [line.split() for line in await said(plane, "p")]
    assert [name for name, _ in told] == ["CapEff:", "CapBnd:", "NoNewPrivs:"] * 2  # of the hook and of the container
    assert {int(value, 16) for name, value in told if name != "NoNewPrivs:"} == {kept}
    assert {value for name, value in told if name == "NoNewPrivs:"} == {"1"}
