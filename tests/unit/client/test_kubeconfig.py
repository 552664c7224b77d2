"""Which cluster a command speaks to: what is wrong with a kubeconfig is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError

from echelon.client.kubeconfig import KubeconfigError, load

GOOD = """
clusters: [{name: c, cluster: {server: "https://example.com:6443"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: here, context: {cluster: c, user: u, namespace: team}}]
current-context: here
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clusters: [", "not a valid kubeconfig"),
        ("", "not a valid kubeconfig"),
        ("just words", "not a valid kubeconfig"),
        ("kind: Config\n", "not a valid kubeconfig"),
        (GOOD.replace("current-context: here", "current-context: there"), "Context 'there' not found"),
    ],
)
def test_an_unusable_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(KubeconfigError) as refused:
        load(file)
    assert str(refused.value).startswith(f"{file}: {words}")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KubeconfigError, match="not a valid kubeconfig"):
        load(file)


def _not_in_a_pod() -> KubeConfig:
    raise ConfigError("no service account")


@pytest.mark.parametrize("variable", ["", "nowhere/config"])
def test_without_a_file_it_says_where_it_looked_and_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setattr(KubeConfig, "from_service_account", _not_in_a_pod)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", variable)
    looked = variable or tmp_path / ".kube" / "config"
    with pytest.raises(KubeconfigError, match="set --kubeconfig or") as refused:
        load(None)
    assert str(refused.value).startswith(f"{looked}: ")


def test_a_file_named_by_the_environment_wins_over_the_service_account_of_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_pod = KubeConfig.from_one(cluster=Cluster(server="https://10.0.0.1"), user=User(token="own"))
    monkeypatch.setattr(KubeConfig, "from_service_account", lambda: in_a_pod)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert load(None).cluster.server == "https://10.0.0.1"
    file = tmp_path / "kubeconfig"
    file.write_text(GOOD)
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert load(None).cluster.server == "https://example.com:6443"


def test_the_chosen_context_comes_from_the_file_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(GOOD)
    found = load(file)
    assert (found.cluster.server, found.namespace) == ("https://example.com:6443", "team")
