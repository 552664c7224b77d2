"""k9s in a terminal: its first screens show what is there, and follow it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from .environments import program, terminal

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]


class Screen:
    """A program in a terminal of its own."""

    def __init__(self, socket: str) -> None:
        self._tmux = [terminal(), "-L", socket]

    def start(self, *command: str) -> None:
        self._run("new-session", "-d", "-s", "k9s", "-x", "180", "-y", "50", *command)

    def text(self) -> str:
        return self._run("capture-pane", "-p", "-t", "k9s")

    def type(self, command: str) -> None:
        self._run("send-keys", "-t", "k9s", command, "Enter")

    def until(self, *words: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not all(word in (shown := self.text()) for word in words):
            assert time.monotonic() < deadline, f"{words} not on the screen:\n{shown}"
            time.sleep(0.3)

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def screen(kubeconfig: Path, tmp_path: Path) -> Iterator[Screen]:
    binary = program("k9s")
    screen = Screen(f"echelon-{tmp_path.name}")
    screen.start("env", f"HOME={tmp_path}", f"XDG_CONFIG_HOME={tmp_path}", "TERM=xterm-256color", str(binary),
                 "--kubeconfig", str(kubeconfig), "--namespace", "default", "--command", "pods")  # fmt: skip
    try:
        yield screen
    finally:
        screen.end()


def test_the_first_screens_show_what_is_there(screen: Screen, kubeconfig: Path) -> None:
    core = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
    screen.until("default")
    spec = {"containers": [{"name": "c", "image": "busybox", "command": ["sleep", "1000"]}]}
    core.create_namespaced_pod("default", {"metadata": {"name": "watched-pod"}, "spec": spec})
    screen.until("watched-pod", "Running")
    node = core.list_node().items[0].metadata.name
    screen.type(":nodes")
    screen.until(node, "Ready")
    screen.type(":podgroups")
    screen.until("podgroups")
    screen.type(":namespaces")
    screen.until("kube-system", "Active")
