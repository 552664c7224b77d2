"""kubernetes_asyncio: typed clients, watches beside writes, patches, the dynamic client."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from kubernetes_asyncio import client, config, dynamic, watch

KUBECONFIG, NAMESPACE = sys.argv[1:]


def step(name: str, holds: object) -> None:
    assert holds, name
    print(name, flush=True)


async def refusal(call: Any) -> int:
    try:
        await call
    except client.ApiException as refused:
        return int(refused.status)
    return 0


async def config_maps(core: client.CoreV1Api) -> None:
    seen: list[str] = []

    async def follow() -> None:
        async with watch.Watch() as stream:
            following = stream.stream(core.list_namespaced_config_map, NAMESPACE, label_selector="a=b")
            async for event in following:
                seen.append(event["type"])
                if event["type"] == "DELETED":
                    break

    follower = asyncio.create_task(follow())
    made = await core.create_namespaced_config_map(
        NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="map", labels={"a": "b"}), data={"a": "1"})
    )
    made.data["b"] = "2"
    replaced = await core.replace_namespaced_config_map("map", NAMESPACE, made)
    step("replace", replaced.data == {"a": "1", "b": "2"})
    step("conflict", await refusal(core.replace_namespaced_config_map("map", NAMESPACE, made)) == 409)
    patched = await core.patch_namespaced_config_map("map", NAMESPACE, {"data": {"c": "3"}})
    step("strategic patch", patched.data == {"a": "1", "b": "2", "c": "3"})
    patched = await core.patch_namespaced_config_map(
        "map", NAMESPACE, [{"op": "remove", "path": "/data/c"}], _content_type="application/json-patch+json"
    )
    step("json patch", patched.data == {"a": "1", "b": "2"})
    await core.delete_namespaced_config_map("map", NAMESPACE)
    await asyncio.wait_for(follower, 30)
    step("watch", seen == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"])


async def jobs(api: client.ApiClient) -> None:
    batch = client.BatchV1Api(api)
    container = {"name": "c", "image": "busybox", "command": ["sleep", "1"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    await batch.create_namespaced_job(NAMESPACE, {"metadata": {"name": "work"}, "spec": {"template": template}})
    async with watch.Watch() as stream:
        async for event in stream.stream(batch.list_namespaced_job, NAMESPACE, timeout_seconds=60):
            if event["object"].status.completion_time:
                break
    done = await batch.read_namespaced_job("work", NAMESPACE)
    step("job runs to its end", done.status.succeeded == 1)
    await batch.delete_namespaced_job("work", NAMESPACE, propagation_policy="Background")


async def anything(api: client.ApiClient) -> None:
    general = await dynamic.DynamicClient(api)
    maps = await general.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    applied = await maps.server_side_apply(body=body, name="applied", namespace=NAMESPACE, field_manager="python")
    step("server-side apply", applied.metadata.managedFields[0].manager == "python")
    listed = await maps.get(namespace=NAMESPACE)
    step("dynamic list", "applied" in [item.metadata.name for item in listed.items])
    await maps.delete(name="applied", namespace=NAMESPACE)


async def main() -> None:
    await config.load_kube_config(KUBECONFIG)
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        await core.create_namespace({"metadata": {"name": NAMESPACE}})
        step("version", (await client.VersionApi(api).get_code()).git_version.startswith("v1.37"))
        await config_maps(core)
        await jobs(api)
        await anything(api)
        await core.delete_namespace(NAMESPACE)
        async with watch.Watch() as stream:
            async for event in stream.stream(core.list_namespace, timeout_seconds=60):
                if event["type"] == "DELETED" and event["object"].metadata.name == NAMESPACE:
                    break
        step("namespace is gone", True)


asyncio.run(main())
