"""What an installation on a cluster consists of, as plain objects; `runtime.install` applies and removes them."""
