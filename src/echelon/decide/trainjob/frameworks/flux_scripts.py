"""The scripts that start Flux on a node: one for the init container that brings it, one for the node container."""

from __future__ import annotations

import json
from dataclasses import dataclass

_PORT = 8050


@dataclass(frozen=True)
class Brokers:
    #: Host names are prefix and number.
    prefix: str
    domain: str
    nodes: int
    processes: int
    gpus: int
    device: str
    queue_policy: str

    @property
    def hosts(self) -> str:
        """All hosts, in the notation of Flux."""
        return f"{self.prefix}[{_first(self.nodes)}]"


def _first(count: int) -> str:
    """The first numbers, in the notation of Flux."""
    return "0" if count <= 1 else f"0-{count - 1}"


def init(brokers: Brokers) -> str:
    return _INIT.replace("@HOSTS@", brokers.hosts).replace("@BROKER@", _broker(brokers))


def entrypoint(brokers: Brokers) -> str:
    resources = f"--cores={_first(brokers.processes)}"
    flags = f"-N {brokers.nodes} -n {brokers.nodes * brokers.processes}"
    if brokers.gpus:
        resources += f" --gpu={_first(brokers.gpus)}"
        flags += f" -g {brokers.gpus}"
    first = f"{brokers.prefix}0"
    return _ENTRYPOINT.replace("@RESOURCES@", resources).replace("@FIRST@", first).replace("@FLAGS@", flags)


def _broker(brokers: Brokers) -> str:
    """The broker's TOML; its strings are written as JSON writes them."""
    words = {
        "@PORT@": str(_PORT),
        "@BIND@": json.dumps(f"tcp://{brokers.device}:%p"),
        "@CONNECT@": json.dumps(f"tcp://%h.{brokers.domain}:%p"),
        "@HOST@": json.dumps(brokers.hosts),
        "@POLICY@": json.dumps(brokers.queue_policy),
    }
    text = _BROKER
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text


_BROKER = """\
[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = @PORT@
default_bind = @BIND@
default_connect = @CONNECT@
hosts = [{ host = @HOST@ }]

[archive]
dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = @POLICY@"""

_INIT = """\
#!/bin/bash
# Brings Flux into the volume that the node container shares, with the list of hosts and the settings of the broker.
set -eu
root=/mnt/flux
config=$root/config
mkdir -p $root/view $config/etc/flux/config $config/etc/flux/system/cron.d $config/etc/curve \\
  $config/run/flux $config/var/lib/flux
echo '@HOSTS@' > $config/etc/flux/system/hostlist
cat > $config/etc/flux/config/broker.toml <<'END'
@BROKER@
END
# /opt/view links to the one view here; what is in it links to /opt/software, which the node container restores.
cp -R /opt/views/._view/*/* $root/view/
cp -R /opt/software $root/
echo "Flux is in place on $(hostname)"
"""

_ENTRYPOINT = """\
#!/bin/bash
# Starts Flux on this node.  The first node runs the command on all nodes; the others serve until it has ended.
command="$*"
root=/mnt/flux
view=$root/view
config=$root/config
settings=$config/etc/flux/config
system=$config/etc/flux/system
state=$config/var/lib/flux

cp -R $root/software/* /opt/software/
# Flux goes last in the path: the image's own programs win.
export PATH=$PATH:$view/bin
library=$(find $view/lib -maxdepth 1 -type d -name 'python3*' | head -n 1)
python=$view/bin/$(basename "$library")
if [ -f "$python" ]; then
  ln -sf "$python" $view/bin/python3
  ln -sf "$python" $view/bin/python
fi
export PYTHONPATH=${PYTHONPATH:-}:$library/site-packages
export FLUX_RC_EXTRA=$view/etc/flux/rc1.d

# The certificate must be readable by its owner alone.
install -m 600 /curve/curve.cert $config/etc/curve/curve.cert
flux R encode --hosts="$(cat $system/hostlist)" @RESOURCES@ > /tmp/R
mv /tmp/R $system/R
mkdir -p $state $system/cron.d
options="-Scron.directory=$system/cron.d -Stbon.fanout=256 -Srundir=$config/run/flux -Sstatedir=$state \\
  -Slocal-uri=local://$config/run/flux/local -Slog-stderr-level=0 -Slog-stderr-mode=local"

if [ "$(hostname)" = '@FIRST@' ]; then
  if [ -z "$command" ]; then
    exec flux broker --config-path $settings $options
  fi
  exec flux start -o --config $settings $options flux run @FLAGS@ $command
fi
# The first broker may not be there yet; one that ends well has been told to.
until flux start -o --config $settings $options; do
  echo "the broker ended with $?; trying again in 15 seconds"
  sleep 15
done
"""
