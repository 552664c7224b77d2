"""GPUs as a user sees them: every pod has its own, also after Echelon was killed and started again."""

from __future__ import annotations

from pathlib import Path

from .kubectl import Kubectl
from .test_process_nodes import client, documents, phase, pod, started, until

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: x
    command: [sh, -c, 'echo "see=$CUDA_VISIBLE_DEVICES/$NVIDIA_VISIBLE_DEVICES"; exec sleep 1000']
    resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
"""


def begin(kubectl: Kubectl, name: str, gpus: int) -> None:
    kubectl("apply", manifest=documents(POD.format(name=name, gpus=gpus)))


def sees(kubectl: Kubectl, name: str) -> str:
    phase(kubectl, name, "Running")
    return until(lambda: kubectl("logs", name).strip())


def test_every_pod_has_its_own_gpus_over_a_restart(tmp_path: Path) -> None:
    with started(tmp_path / "data", "--capacity", "nvidia.com/gpu=4") as up:
        kubectl = client(up, tmp_path)
        begin(kubectl, "one", 1)
        assert sees(kubectl, "one") == "see=0/0"
        begin(kubectl, "two", 2)
        assert sees(kubectl, "two") == "see=1,2/1,2"
        begin(kubectl, "none", 0)
        assert sees(kubectl, "none") == "see=/void"
        begin(kubectl, "more", 2)
        up.kill()
        up.start()
        assert pod(kubectl, "more")["status"]["phase"] == "Pending"
        kubectl("delete", "pod", "one")
        assert sees(kubectl, "more") == "see=0,3/0,3"
