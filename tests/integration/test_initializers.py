"""What initializers fetch from a hub, a bucket and into a cache, on small servers that speak the same protocols."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from echelon.initializers import cache_cluster
from echelon.initializers.aws_signature import AccessKeys
from echelon.initializers.cache_cluster import CacheSource, ClusterApi
from echelon.initializers.http_session import HttpSession
from echelon.initializers.loading import load
from echelon.initializers.problems import LoadingFailed
from tests.integration.file_servers import Bucket, ClusterServer, Hub, serving

DATA = {"train.jsonl": b"row\n" * 50_000, "docs/read me.txt": b"words", "weights.bin": b"b"}
MODEL = {"config.json": b"{}", "model.safetensors": b"w" * 300_000, "model.h5": b"h", "pytorch_model.bin": b"p"}
KEYS = AccessKeys("AKIA", "secret")


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
    made.repositories = {"datasets/team/data": dict(DATA), "models/team/model": dict(MODEL)}
    made.large = {"model.safetensors", "train.jsonl"}
    with serving(made):
        yield made


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    made = Bucket(KEYS)
    made.objects = {
        "sets/a.txt": b"a" * 100_000,
        "sets/b/c d&e.txt": b"c",
        "sets/b/": b"",
        "settings": b"s",
        "other": b"o",
    }
    with serving(made):
        yield made


class Fetched:
    """One run of an initializer, whose pauses take no time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pauses: list[float] = []
        self.told: list[str] = []

    def __call__(self, kind: Literal["dataset", "model"], **environ: str) -> dict[str, bytes]:
        load(kind, environ, self.folder, HttpSession(sleep=self.pauses.append), self.told.append)
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}


@pytest.fixture
def fetch(tmp_path: Path) -> Fetched:
    return Fetched(tmp_path / "made" / "here")


# -- hub -------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("TJ-81")
def test_a_public_dataset_is_fetched_whole(hub: Hub, fetch: Fetched) -> None:
    assert fetch("dataset", STORAGE_URI="hf://team/data", HF_ENDPOINT=hub.url) == DATA


@pytest.mark.conformance("TJ-81")
def test_of_a_model_only_what_training_reads_is_fetched(hub: Hub, fetch: Fetched) -> None:
    found = fetch("model", STORAGE_URI="hf://team/model", HF_ENDPOINT=hub.url)
    assert sorted(found) == ["config.json", "model.safetensors"]


def test_ignored_patterns_replace_the_choice_of_files(hub: Hub, fetch: Fetched) -> None:
    asked = {"STORAGE_URI": "hf://team/model", "IGNORE_PATTERNS": "*.safetensors, *.h5", "HF_ENDPOINT": hub.url}
    assert sorted(fetch("model", **asked)) == ["config.json", "pytorch_model.bin"]


def test_a_path_in_a_repository_is_fetched_alone(hub: Hub, fetch: Fetched) -> None:
    assert list(fetch("dataset", STORAGE_URI="hf://team/data/docs", HF_ENDPOINT=hub.url)) == ["docs/read me.txt"]


@pytest.mark.conformance("TJ-81")
@pytest.mark.parametrize(
    ("uri", "token", "message"),
    [
        ("hf://team/absent", "", "there is no dataset team/absent with revision main"),
        ("hf://team/data@v9", "", "there is no dataset team/data with revision v9"),
        ("hf://team/data", "bad", "the token in ACCESS_TOKEN is not good for it"),
        ("hf://team/private", "", "it needs a token in ACCESS_TOKEN"),
        ("hf://team/data/nothing", "", "has no file that is wanted"),
        ("hf://", "", "not of the form hf://org/repository"),
    ],
)
def test_what_a_hub_does_not_give_ends_the_initializer(
    hub: Hub, fetch: Fetched, uri: str, token: str, message: str
) -> None:
    hub.repositories["datasets/team/private"] = {"a": b"a"}
    hub.private = {"datasets/team/private"}
    with pytest.raises(LoadingFailed, match=message):
        fetch("dataset", STORAGE_URI=uri, ACCESS_TOKEN=token, HF_ENDPOINT=hub.url)
    assert fetch.pauses == [], "asking again would not help"


def test_a_private_repository_is_fetched_with_its_token(hub: Hub, fetch: Fetched) -> None:
    hub.private = {"datasets/team/data"}
    assert fetch("dataset", STORAGE_URI="hf://team/data", ACCESS_TOKEN="good", HF_ENDPOINT=hub.url) == DATA


def test_a_token_is_not_taken_along_to_another_host(hub: Hub, fetch: Fetched) -> None:
    fetch("dataset", STORAGE_URI="hf://team/data", ACCESS_TOKEN="good", HF_ENDPOINT=hub.url)
    there = [headers for path, headers in zip(hub.requests, hub.headers, strict=True) if path.startswith("/stored/")]
    assert len(there) == 1
    assert "authorization" not in there[0]
    assert there[0]["host"].startswith("localhost")


# -- broken transfers ------------------------------------------------------------------------------------------


def test_a_transfer_that_breaks_goes_on_where_it_was(hub: Hub, fetch: Fetched) -> None:
    path = "/stored/datasets/team/data/train.jsonl"
    hub.failures[path] = [0, 0]
    assert fetch("dataset", STORAGE_URI="hf://team/data", HF_ENDPOINT=hub.url) == DATA
    begins = [h.get("range", "") for p, h in zip(hub.requests, hub.headers, strict=True) if p == path]
    assert begins == ["", "bytes=100000-", "bytes=150000-"]


def test_a_server_that_is_busy_is_asked_again(hub: Hub, fetch: Fetched) -> None:
    hub.failures["/api/datasets/team/data/revision/main"] = [503, 429]
    assert fetch("dataset", STORAGE_URI="hf://team/data", HF_ENDPOINT=hub.url) == DATA
    assert fetch.pauses == [0.5, 1.0]


def test_a_server_that_stays_busy_is_given_up(hub: Hub, fetch: Fetched) -> None:
    hub.failures["/api/datasets/team/data/revision/main"] = [503] * 20
    with pytest.raises(LoadingFailed, match="503"):
        fetch("dataset", STORAGE_URI="hf://team/data", HF_ENDPOINT=hub.url)
    assert len(fetch.pauses) == 5


def test_nobody_there_is_told(fetch: Fetched) -> None:
    with pytest.raises(LoadingFailed, match="refused"):
        fetch("dataset", STORAGE_URI="hf://team/data", HF_ENDPOINT="http://127.0.0.1:9")


@pytest.mark.parametrize("path", ["train.jsonl", "weights.bin"])
def test_content_that_is_not_what_was_promised_is_not_kept(hub: Hub, fetch: Fetched, path: str) -> None:
    hub.wrong = {path: b"x" * len(DATA[path])}
    with pytest.raises(LoadingFailed, match="checksum"):
        fetch("dataset", STORAGE_URI="hf://team/data", HF_ENDPOINT=hub.url)
    assert not list(fetch.folder.rglob(f"{path}*"))


def test_what_is_there_already_is_not_fetched_again(hub: Hub, fetch: Fetched) -> None:
    asked = {"STORAGE_URI": "hf://team/data", "HF_ENDPOINT": hub.url}
    fetch("dataset", **asked)
    (fetch.folder / "weights.bin").write_bytes(b"?")
    hub.requests.clear()
    assert fetch("dataset", **asked) == DATA
    assert [path.rsplit("/", 1)[-1] for path in hub.requests if "/resolve/" in path] == ["weights.bin"]


def test_a_server_does_not_choose_places_outside_the_folder(hub: Hub, fetch: Fetched) -> None:
    hub.repositories["datasets/team/data"]["../../escaped"] = b"x"
    with pytest.raises(LoadingFailed, match="would leave"):
        fetch("dataset", STORAGE_URI="hf://team/data", HF_ENDPOINT=hub.url)
    assert not list(fetch.folder.parent.parent.rglob("escaped"))


# -- buckets ---------------------------------------------------------------------------------------------------


def s3(bucket: Bucket, uri: str = "s3://data/sets", **more: str) -> dict[str, str]:
    return {"STORAGE_URI": uri, "ENDPOINT": bucket.url, "ACCESS_KEY_ID": "AKIA", "SECRET_ACCESS_KEY": "secret", **more}


@pytest.mark.conformance("TJ-82")
@pytest.mark.parametrize("prefix", ["sets", "sets/"])
def test_all_objects_below_a_prefix_are_fetched(bucket: Bucket, fetch: Fetched, prefix: str) -> None:
    found = fetch("dataset", **s3(bucket, f"s3://data/{prefix}"))
    assert found == {"a.txt": b"a" * 100_000, "b/c d&e.txt": b"c"}


def test_a_single_object_is_fetched_by_its_name(bucket: Bucket, fetch: Fetched) -> None:
    assert fetch("model", **s3(bucket, "s3://data/sets/a.txt")) == {"a.txt": b"a" * 100_000}


@pytest.mark.conformance("TJ-82")
@pytest.mark.parametrize(
    ("uri", "more", "message"),
    [
        ("s3://data/nothing", {}, "there is no object at or below s3://data/nothing"),
        ("s3://other/sets", {}, "there is no bucket other"),
        ("s3://data/sets", {"SECRET_ACCESS_KEY": "wrong"}, "these keys may not read it"),
        ("s3://data/sets", {"SECRET_ACCESS_KEY": ""}, "go together"),
        ("s3:///sets", {}, "not of the form s3://bucket/prefix"),
    ],
)
def test_what_a_bucket_does_not_give_ends_the_initializer(
    bucket: Bucket, fetch: Fetched, uri: str, more: dict[str, str], message: str
) -> None:
    with pytest.raises(LoadingFailed, match=message):
        fetch("dataset", **s3(bucket, uri, **more))


def test_a_public_bucket_is_read_without_keys(bucket: Bucket, fetch: Fetched) -> None:
    bucket.keys = None
    assert len(fetch("dataset", STORAGE_URI="s3://data/sets", ENDPOINT=bucket.url)) == 2
    assert all("authorization" not in headers for headers in bucket.headers)


def test_a_signed_transfer_that_breaks_goes_on(bucket: Bucket, fetch: Fetched) -> None:
    bucket.failures["/data/sets/a.txt"] = [0]
    assert len(fetch("dataset", **s3(bucket))["a.txt"]) == 100_000
    assert "bytes=50000-" in [headers.get("range") for headers in bucket.headers]


def test_the_tag_of_an_object_that_a_key_service_encrypts_is_no_checksum(bucket: Bucket, fetch: Fetched) -> None:
    bucket.encrypted = True
    assert len(fetch("dataset", **s3(bucket))) == 2


@pytest.mark.parametrize("by_token", [False, True])
def test_keys_of_a_role_are_used(bucket: Bucket, fetch: Fetched, tmp_path: Path, by_token: bool) -> None:
    bucket.keys = AccessKeys("TEMP", "temporary", "session")
    token = tmp_path / "token"
    token.write_text("jwt\n")
    role = {"ROLE_ARN": "arn:aws:iam::1:role/r", "AWS_ENDPOINT_URL_STS": bucket.url}
    if by_token:
        asked = {"STORAGE_URI": "s3://data/sets", "ENDPOINT": bucket.url, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
    else:
        asked = s3(bucket)
    assert len(fetch("dataset", **asked, **role)) == 2
    (said,) = bucket.asked
    assert said["RoleArn"] == "arn:aws:iam::1:role/r"
    assert said.get("WebIdentityToken", "") == ("jwt" if by_token else "")
    assert all(headers["x-amz-security-token"] == "session" for headers in bucket.headers[1:])


# -- cache -----------------------------------------------------------------------------------------------------


def test_a_cache_cluster_is_made_for_the_trainjob_and_waited_for() -> None:
    server, told, pauses = ClusterServer(), list[str](), list[float]()
    source = CacheSource("sales", "orders", "train", "cache:1", "arn:role", "s3://b/meta", 4)
    with serving(server):
        api = ClusterApi(HttpSession(sleep=pauses.append), server.url, "team", "token")
        cache_cluster.start(source, api, told.append, pauses.append)
        cache_cluster.start(source, api, told.append, pauses.append)
    assert pauses == [5.0], "the second run finds it available"
    cluster = server.created["leaderworkersets"]
    assert cluster["metadata"]["name"] == "train-cache"
    assert cluster["metadata"]["ownerReferences"][0]["uid"] == "u"
    template = cluster["spec"]["leaderWorkerTemplate"]
    assert template["size"] == 4
    (head,) = template["leaderTemplate"]["spec"]["containers"]
    assert {one["name"]: one["value"] for one in head["env"]} == {
        "METADATA_LOC": "s3://b/meta",
        "TABLE_NAME": "orders",
        "SCHEMA_NAME": "sales",
    }
    assert server.created["services"]["spec"]["selector"] == {"app": "train-cache-head"}
    assert server.created["serviceaccounts"]["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == "arn:role"


def test_a_cluster_without_the_kind_is_told() -> None:
    server = ClusterServer()
    server.kinds.remove("leaderworkersets")
    source = CacheSource("s", "t", "train", "i", "r", "m")
    with serving(server), pytest.raises(LoadingFailed, match="the cluster has no LeaderWorkerSet"):
        cache_cluster.start(source, ClusterApi(HttpSession(), server.url, "team", "x"), print)


NEEDED = {"TRAIN_JOB_NAME": "t", "CACHE_IMAGE": "i", "IAM_ROLE": "r", "METADATA_LOC": "m"}


@pytest.mark.conformance("TJ-82")
@pytest.mark.parametrize(
    ("kind", "environ", "message"),
    [
        ("dataset", {}, "STORAGE_URI is not set"),
        ("dataset", {"STORAGE_URI": "gs://a/b"}, "one of hf, s3 and cache"),
        ("model", {"STORAGE_URI": "cache://a/b"}, "one of hf and s3"),
        ("dataset", {"STORAGE_URI": "no scheme"}, "one of hf, s3 and cache"),
        ("dataset", {"STORAGE_URI": "cache://schema"}, "not of the form cache://schema/table"),
        ("dataset", {"STORAGE_URI": "cache://a/b/c"}, "not of the form cache://schema/table"),
        ("dataset", {"STORAGE_URI": "cache:///b"}, "not of the form cache://schema/table"),
        ("dataset", {"STORAGE_URI": "cache://a/b"}, "needs TRAIN_JOB_NAME, CACHE_IMAGE, IAM_ROLE, METADATA_LOC"),
        ("dataset", {"STORAGE_URI": "cache://a/b", **NEEDED, "CLUSTER_SIZE": "x"}, "CLUSTER_SIZE x"),
        ("dataset", {"STORAGE_URI": "cache://a/b", **NEEDED}, "works inside a pod"),
    ],
)
def test_what_an_initializer_is_not_told_or_cannot_do_is_an_error(
    fetch: Fetched, kind: Literal["dataset", "model"], environ: dict[str, str], message: str
) -> None:
    with pytest.raises(LoadingFailed, match=message):
        fetch(kind, **environ)


# -- the program -----------------------------------------------------------------------------------------------


@pytest.mark.conformance("TJ-81")
@pytest.mark.parametrize(("repository", "code"), [("team/model", 0), ("team/absent", 1)])
def test_as_a_program(hub: Hub, tmp_path: Path, repository: str, code: int) -> None:
    environ = {**os.environ, "STORAGE_URI": f"hf://{repository}", "HF_ENDPOINT": hub.url}
    words = [sys.executable, "-m", "echelon.initializers", "model", "--folder", str(tmp_path / "model")]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    if code == 0:
        assert (tmp_path / "model" / "config.json").read_bytes() == b"{}"
        assert "model is complete" in done.stdout
    else:
        assert done.stderr.startswith("error: there is no model team/absent")
