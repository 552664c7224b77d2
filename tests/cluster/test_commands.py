"""`echelon scheduler` and `echelon controllers` as processes, on our server and on a real one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
import yaml
from click.testing import CliRunner

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.schema.crd_manifests import custom_resource_definitions
from echelon.api.scheme import EVENTS, LEASES, NODES, POD_GROUPS, PODS
from echelon.api.verbs import DeleteOptions, ListOptions, Verbs
from echelon.cli import main
from echelon.deploy.options import SCHEDULER
from echelon.testing.builders import make_node, make_pod

from .conftest import Side
from .gangs import places, submit_gang
from .process import echelon, scheduler_as
from .waiting import eventually


@pytest.fixture
def login(side: Side) -> Path:
    """As whom a scheduler asks the server: the account that an installation gives it, where there are accounts."""
    return side.acting_as(SCHEDULER).kubeconfig


@pytest.fixture
async def node(side: Side, namespace: str) -> AsyncIterator[str]:
    """A node of 4 CPUs that only pods of this test select."""
    name = f"{namespace}-node"
    await side.verbs.create(NODES, make_node(name, cpu=4))
    yield name
    for pod in (await side.verbs.list(PODS, namespace)).items:
        with suppress(ApiError):
            await side.verbs.delete(PODS, meta.name(pod), namespace, DeleteOptions(grace_period_seconds=0))
    await side.verbs.delete(NODES, name)


async def holder(verbs: Verbs, lease: str) -> str:
    return str((await verbs.get(LEASES, lease, "kube-system"))["spec"].get("holderIdentity") or "")


async def test_scheduler_places_what_names_it_and_nothing_else(
    side: Side, login: Path, namespace: str, node: str
) -> None:
    async with scheduler_as(login) as scheduler:
        ours = await submit_gang(side.verbs, namespace, node, "ours")
        await eventually(places(side.verbs, namespace, ours), {node})
        others = await submit_gang(side.verbs, namespace, node, "others", scheduler="somebody-else")

        async def is_scheduled() -> bool:
            return meta.condition_is(await side.verbs.get(POD_GROUPS, "ours", namespace), "PodGroupInitiallyScheduled")

        await eventually(is_scheduled)
        # What came after the others has been placed, so they have been looked at.
        await side.verbs.create(
            PODS,
            make_pod(
                "last", namespace=namespace, schedulerName="echelon", nodeSelector={"kubernetes.io/hostname": node}
            ),
            namespace,
        )
        await eventually(places(side.verbs, namespace, ["last"]), {node})
        assert await places(side.verbs, namespace, others)() == {""}
        events = ListOptions(field_selector="involvedObject.name=ours-0")

        async def reasons() -> list[str]:
            return [event["reason"] for event in (await side.verbs.list(EVENTS, namespace, events)).items]

        await eventually(reasons, ["Scheduled"])
        assert await scheduler.end(signal.SIGINT) == 0, scheduler.said


async def test_interrupted_scheduler_gives_its_lease_up(side: Side, login: Path) -> None:
    async with scheduler_as(login) as scheduler:
        assert await holder(side.verbs, "echelon-scheduler")
        assert await scheduler.end(signal.SIGTERM) == 0
    assert scheduler.said[-1].endswith("stopped\n")  # lines of the log may come with it
    assert await holder(side.verbs, "echelon-scheduler") == ""


@pytest.mark.long
async def test_waiting_scheduler_takes_over_from_one_that_was_killed(
    side: Side, login: Path, namespace: str, node: str
) -> None:
    async with scheduler_as(login) as first, echelon("scheduler", "--kubeconfig", login) as second:
        await second.says("waiting for lease")
        leader = await holder(side.verbs, "echelon-scheduler")
        await first.end(signal.SIGKILL)
        names = await submit_gang(side.verbs, namespace, node, "gang")
        await second.says("is ready at")
        await eventually(places(side.verbs, namespace, names), {node})
        assert await holder(side.verbs, "echelon-scheduler") not in ("", leader)
        assert await second.end() == 0


async def test_scheduler_without_election_needs_no_lease(side: Side, login: Path, namespace: str, node: str) -> None:
    options = ("--no-leader-elect", "--name", "mine", "--name", "yours")
    async with scheduler_as(login, *options) as scheduler:
        mine = await submit_gang(side.verbs, namespace, node, "mine", scheduler="mine")
        await eventually(places(side.verbs, namespace, mine), {node})
        with pytest.raises(ApiError):
            await holder(side.verbs, "echelon-scheduler-mine-yours")
        assert await scheduler.end() == 0


async def test_scheduler_that_waits_for_the_lease_can_be_interrupted(login: Path) -> None:
    async with scheduler_as(login) as first, echelon("scheduler", "--kubeconfig", login) as second:
        await second.says("waiting for lease")
        assert await second.end() == 0
        assert await first.end() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("scheduler", "--kubeconfig", "/no/such/file"), "/no/such/file"),
        (("scheduler", "--name", ""), "--name: must not be empty"),
        (("controllers", "--only", "jobset,job"), "unknown name job; known are jobset, trainjob"),
        (("controllers", "--only", ","), "no name given"),
    ],
    ids=["kubeconfig", "no name", "unknown controller", "no controller"],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    outcome = CliRunner().invoke(main, arguments)
    assert outcome.exit_code == 2
    assert words in outcome.output
    assert outcome.output.count("\n") == 1


def test_definitions_are_printed_as_one_stream_of_manifests() -> None:
    outcome = CliRunner().invoke(main, ["crds"])
    assert outcome.exit_code == 0
    assert list(yaml.load_all(outcome.output, Loader=yaml.CSafeLoader)) == custom_resource_definitions()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "compositepodgroups in scheduling.k8s.io/v1alpha3: run `echelon install`"),
        (401, "the server rejects the credentials of this kubeconfig"),
        (200, "not a response of an API server"),
        (None, "cannot use http://127.0.0.1"),
    ],
    ids=["no such kind", "unauthorized", "another server", "nobody listens"],
)
async def test_server_that_cannot_be_worked_with_is_one_line_and_exit_code_2(
    status: int | None, words: str, tmp_path: Path
) -> None:
    async with _server_that_answers(status) as address:
        (tmp_path / "kubeconfig").write_text(
            f"clusters: [{{name: c, cluster: {{server: '{address}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
        )
        async with echelon("controllers", "--kubeconfig", tmp_path / "kubeconfig") as command:
            assert await command.wait() == 2
    assert words in command.said[-1]
    assert command.said[-1].count("\n") == 1


@asynccontextmanager
async def _server_that_answers(status: int | None) -> AsyncIterator[str]:
    """The address of a server that says the same to everybody, or of none at all."""
    if status is None:
        yield "http://127.0.0.1:1"
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_scheduler_can_be_watched(side: Side, login: Path, namespace: str, node: str) -> None:
    """Real sockets: what it has bound is in its metrics, and it says that it lives and is ready."""
    command = ("scheduler", "--no-leader-elect", "--metrics-port", "0", "--kubeconfig", login)
    async with echelon(*command) as scheduler:
        await scheduler.says("serving metrics at")
        base = scheduler.said[-1].split()[-1].removesuffix("/metrics")
        await scheduler.says("is ready at")
        async with aiohttp.ClientSession() as browser:

            async def read(path: str) -> str:
                async with browser.get(base + path) as answer:
                    assert answer.status == 200
                    return await answer.text()

            assert [await read("/healthz"), await read("/readyz")] == ["ok", "ok"]
            bound = 'echelon_scheduler_bindings_total{result="bound"} 3.0'
            assert bound not in await read("/metrics")
            await submit_gang(side.verbs, namespace, node, "g")

            async def counted() -> bool:
                return bound in await read("/metrics")

            await eventually(counted)
        assert await scheduler.end() == 0
