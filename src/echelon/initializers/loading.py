"""From the environment of an initializer to its source: which variables mean what, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from . import cache_cluster, hugging_face, s3
from .aws_signature import AccessKeys
from .cache_cluster import CacheSource
from .file_download import download_all
from .http_session import HttpSession
from .hugging_face import HubSource
from .problems import LoadingFailed
from .s3 import S3Source

Kind = Literal["dataset", "model"]
FOLDERS: Mapping[Kind, Path] = {"dataset": Path("/workspace/dataset"), "model": Path("/workspace/model")}
#: Of a model, what training reads; other frameworks' copies of the weights are left where they are.
_MODEL_FILES = ("*.json", "*.safetensors", "*.model", "*.txt")
_OTHER_WEIGHTS = ("*.msgpack", "*.h5", "*.bin", "*.pt", "*.pth")

Environment = Mapping[str, str]
Tell = Callable[[str], None]


def load(kind: Kind, environ: Environment, folder: Path, session: HttpSession, tell: Tell) -> None:
    uri = environ.get("STORAGE_URI", "")
    if not uri:
        raise LoadingFailed("STORAGE_URI is not set: it says what to fetch")
    scheme = uri.partition("://")[0] if "://" in uri else ""
    tell(f"{kind} from {uri}")
    if scheme == "hf":
        download_all(session, _hub(kind, uri, environ).files(session), folder, tell)
    elif scheme == "s3":
        download_all(session, _bucket(uri, environ, session).files(session), folder, tell)
    elif scheme == "cache" and kind == "dataset":
        cache_cluster.start(_cache(uri, environ), cache_cluster.inside_a_pod(environ), tell, session.sleep)
    else:
        known = "hf, s3 and cache" if kind == "dataset" else "hf and s3"
        raise LoadingFailed(f"STORAGE_URI {uri}: the scheme of a {kind} is one of {known}")
    tell(f"{kind} is complete")


def _hub(kind: Kind, uri: str, environ: Environment) -> HubSource:
    repository, revision, within = hugging_face.parse(uri)
    patterns = _words(environ.get("IGNORE_PATTERNS", ""))
    return HubSource(
        kind,
        repository,
        revision,
        within,
        hub=environ.get("HF_ENDPOINT", hugging_face.HUB).rstrip("/"),
        token=environ.get("ACCESS_TOKEN") or environ.get("HF_TOKEN", ""),
        allow=_MODEL_FILES if kind == "model" and not patterns else (),
        ignore=patterns or (_OTHER_WEIGHTS if kind == "model" else ()),
    )


def _bucket(uri: str, environ: Environment, session: HttpSession) -> S3Source:
    bucket, prefix = s3.parse(uri)
    region = environ.get("REGION") or environ.get("AWS_REGION") or "us-east-1"
    own = _keys(environ)
    role = environ.get("ROLE_ARN") or environ.get("AWS_ROLE_ARN", "")
    if role:
        token_file = environ.get("AWS_WEB_IDENTITY_TOKEN_FILE", "")
        sts = environ.get("AWS_ENDPOINT_URL_STS", "")
        own = s3.credentials_of_role(session, role, own, region, token_file, sts)
    endpoint = environ.get("ENDPOINT") or environ.get("AWS_ENDPOINT_URL_S3", "")
    return S3Source(bucket, prefix, endpoint, region, own)


def _keys(environ: Environment) -> AccessKeys | None:
    access = environ.get("ACCESS_KEY_ID") or environ.get("AWS_ACCESS_KEY_ID", "")
    secret = environ.get("SECRET_ACCESS_KEY") or environ.get("AWS_SECRET_ACCESS_KEY", "")
    if bool(access) != bool(secret):
        raise LoadingFailed("ACCESS_KEY_ID and SECRET_ACCESS_KEY go together: one of them is not set")
    return AccessKeys(access, secret, environ.get("AWS_SESSION_TOKEN", "")) if access else None


def _cache(uri: str, environ: Environment) -> CacheSource:
    schema, table = cache_cluster.parse(uri)
    needed = ("TRAIN_JOB_NAME", "CACHE_IMAGE", "IAM_ROLE", "METADATA_LOC")
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        raise LoadingFailed(f"cache:// needs {', '.join(missing)} too")
    job, image, role, location = (environ[name] for name in needed)
    size = environ.get("CLUSTER_SIZE", "3")
    if not size.isdigit() or int(size) < 2:
        raise LoadingFailed(f"CLUSTER_SIZE {size}: must be a number of at least 2, a head and its workers")
    head = environ.get("HEAD_CPU", "1"), environ.get("HEAD_MEM", "1Gi")
    worker = environ.get("WORKER_CPU", "2"), environ.get("WORKER_MEM", "2Gi")
    return CacheSource(schema, table, job, image, role, location, int(size), head, worker)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
