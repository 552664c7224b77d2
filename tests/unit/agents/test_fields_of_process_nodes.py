"""The reference of process nodes says of every field of a pod what happens to it, and the code does that."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from echelon.agents.process.pod_directories import NodeDirectory
from echelon.agents.process.rules.container_env import BadConfig, DownwardFacts, environment
from echelon.agents.process.rules.refusals import NodePowers, refusal
from echelon.agents.process.volume_files import BadVolume, VolumeFiles
from echelon.api.schema.definitions import lookup

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "process-nodes.md").read_text()
#: Section of the page → the types whose fields it lists.
SECTIONS = {
    "Pod": ("PodSpec",),
    "Container": ("Container",),
    "Security contexts": ("PodSecurityContext", "SecurityContext"),
    "Volumes": ("Volume",),
    "Mounts": ("VolumeMount",),
    "Probes": ("Probe",),
    "Lifecycle": ("Lifecycle",),
    "Sources of variables": ("EnvVarSource",),
}
#: Values of fields that are refused, where `True` is not one.
VALUES: dict[str, Any] = {
    "resourceClaims": [{"name": "gpu"}],
    "volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}],
    "sysctls": [{"name": "net.core.somaxconn", "value": "1"}],
    "seLinuxOptions": {"level": "s0"},
    "windowsOptions": {"hostProcess": True},
}
POWERS = NodePowers("net", 0, 0)


def section(title: str) -> str:
    return PAGE[PAGE.index("## Fields\n") :].split(f"### {title}\n", 1)[1].partition("\n##")[0]


def rows(title: str) -> list[tuple[list[str], str, str]]:
    """Fields, what happens to them, and the rest of the row."""
    found = re.findall(r"^\| (`.*?`) \| (\w+) \| (.*)\|$", section(title), re.MULTILINE)
    return [(re.findall(r"`(\w+)`", fields), how, why) for fields, how, why in found]


def listed(how: str) -> list[tuple[str, str, str]]:
    """(section, field, the rest of the row) of every field with this fate."""
    return [
        (title, field, why)
        for title in SECTIONS
        for fields, fate, why in rows(title)
        if fate == how
        for field in fields
    ]


def source(folder: Path, *, but: str = " ") -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob("*.py")) if but not in str(path))


OURS = source(ROOT / "src" / "echelon" / "agents" / "process")


@pytest.mark.parametrize("title", SECTIONS)
def test_every_field_is_listed_once(title: str) -> None:
    fields = [field for names, _, _ in rows(title) for field in names]
    wanted = {field for type_ in SECTIONS[title] for field in lookup(f"io.k8s.api.core.v1.{type_}")["properties"]}
    assert sorted(fields) == sorted(wanted)


def test_fates_are_of_four_kinds() -> None:
    fates = {fate for title in SECTIONS for _, fate, _ in rows(title)}
    assert fates == {"honoured", "refused", "ignored", "elsewhere"}


@pytest.mark.parametrize(("title", "field", "_why"), listed("honoured"))
def test_what_is_honoured_is_read(title: str, field: str, _why: str) -> None:
    named = field in ("configMap", "secret") or f'"{field}"' in OURS
    assert named, f"{title}: nothing in agents/process reads {field}"


@pytest.mark.parametrize(("title", "field", "why"), listed("ignored"))
def test_what_is_ignored_is_not_read(title: str, field: str, why: str) -> None:
    if (title, field) == ("Pod", "resources"):
        return  # the field of the same name of a container is read
    assert f'"{field}"' not in OURS, f"{title}: {field} is read, so the page must say what for"


@pytest.mark.parametrize(("_title", "field", "_why"), listed("elsewhere"))
def test_what_is_done_elsewhere_is_done(_title: str, field: str, _why: str) -> None:
    assert f'"{field}"' not in OURS
    assert re.search(rf'"{field}"|\.{field}\b', source(ROOT / "src" / "echelon", but="agents/process"))


def message_for(title: str, field: str, path: Path) -> str:
    """What a user reads who asks for a field that is refused."""
    value = VALUES.get(field, True)
    pod: dict[str, Any] = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {}}
    container: dict[str, Any] = {"name": "c"}
    if title == "Volumes":
        pod["spec"]["volumes"] = [{"name": "v", field: {}}]
        volumes = VolumeFiles(None, NodeDirectory(path), None, host_paths=False)  # type: ignore[arg-type]
        with pytest.raises(BadVolume) as refused:
            asyncio.run(volumes.prepare(pod, DownwardFacts("", "", {})))
        return str(refused.value)
    if title == "Sources of variables":
        container["env"] = [{"name": "X", "valueFrom": {field: {}}}]
        with pytest.raises(BadConfig) as bad:
            environment(pod, container, DownwardFacts("", "", {}), lambda _kind, _name: None)
        return str(bad.value)
    if title == "Pod":
        pod["spec"][field] = value
    elif title == "Probes":
        container["livenessProbe"] = {field: {"port": 1}}
    else:
        (container.setdefault("securityContext", {}) if title == "Security contexts" else container)[field] = value
    waiting = refusal(pod, container, POWERS)
    assert waiting is not None, f"{title}: {field} is not refused"
    assert waiting.reason == "CreateContainerConfigError"
    return waiting.message


@pytest.mark.parametrize(("title", "field", "why"), listed("refused"))
def test_what_is_refused_says_what_the_page_quotes(title: str, field: str, why: str, tmp_path: Path) -> None:
    (quoted,) = re.findall(r"`(.+)`", why)
    assert quoted in message_for(title, field, tmp_path)


@pytest.mark.parametrize(
    ("pod", "container", "section_and_field"),
    [
        ({"os": {"name": "windows"}}, {}, ("Pod", "os")),
        ({}, {"ports": [{"hostPort": 80}]}, ("Container", "ports")),
        ({}, {"securityContext": {"runAsUser": 7}}, ("Security contexts", "runAsUser")),
        ({}, {"securityContext": {"runAsGroup": 7}}, ("Security contexts", "runAsGroup")),
        ({"securityContext": {"runAsNonRoot": True}}, {}, ("Security contexts", "runAsNonRoot")),
        ({}, {"securityContext": {"capabilities": {"add": ["ALL"]}}}, ("Security contexts", "capabilities")),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_values_that_are_refused_say_what_the_page_quotes(
    pod: dict[str, Any], container: dict[str, Any], section_and_field: tuple[str, str]
) -> None:
    title, field = section_and_field
    (why,) = [why for fields, _, why in rows(title) if field in fields]
    waiting = refusal({"metadata": {}, "spec": pod}, {"name": "c", **container}, POWERS)
    assert waiting is not None
    assert any(quoted in waiting.message for quoted in re.findall(r"`(.+?)`", why))
