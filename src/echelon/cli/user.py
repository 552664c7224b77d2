"""`echelon user`: users of a control plane that `echelon up` runs."""

from __future__ import annotations

import re
from pathlib import Path

import click

from .failures import Refusal
from .own_plane import default_data_directory

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,9})([smhd])", re.ASCII)

_data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory of the plane.  [default: that of echelon up]",
)


def _seconds(duration: str | None) -> float | None:
    if duration is None:
        return None
    found = _DURATION.fullmatch(duration)
    if found is None or not int(found[1]):
        raise Refusal(f"--expires {duration}: write it as 30m, 12h or 90d")
    return float(found[1]) * _UNITS[found[2]]


@click.group(short_help="Add, list and remove users of a local control plane.")
def user() -> None:
    """Add, list and remove users of a control plane that echelon up runs, also while it runs.

    With echelon up --authorization rbac a new user may do nothing but discover the API: grant roles with kubectl.
    """


@user.command("add", short_help="Add a user and print its kubeconfig.")
@click.argument("name")
@click.option("--group", "groups", multiple=True, help="Group of the user; may be given several times.")
@click.option(
    "--expires", metavar="DURATION", help="How long the credential is valid: 30m, 12h, 90d.  [default: always]"
)
@click.option("--certificate", is_flag=True, help="Use a client certificate instead of a token; it expires in a year.")
@_data_option
def add(name: str, groups: tuple[str, ...], expires: str | None, certificate: bool, data: Path | None) -> None:
    """Add a user and print its kubeconfig, the only place where its credential is.

    \b
    Example:
      echelon user add ann --group developers > ann.kubeconfig
      kubectl create rolebinding developers --clusterrole=edit --group=developers
    """
    from ..runtime.user_accounts import CannotChangeUsers, UserAccounts

    accounts, seconds = UserAccounts(data or default_data_directory()), _seconds(expires)
    try:
        kubeconfig = accounts.add(name, groups, seconds, certificate=certificate)
    except CannotChangeUsers as error:
        raise Refusal(str(error)) from error
    click.echo(kubeconfig, nl=False)


@user.command("list", short_help="List the users.")
@_data_option
def list_(data: Path | None) -> None:
    """List the users with their groups and when their credential expires."""
    from ..base.instants import to_time
    from ..runtime.user_accounts import CannotChangeUsers, UserAccounts

    try:
        users = UserAccounts(data or default_data_directory()).users()
    except CannotChangeUsers as error:
        raise Refusal(str(error)) from error
    rows = [("NAME", "CREDENTIAL", "EXPIRES", "GROUPS")]
    for one in users:
        expires = to_time(one.expires) if one.expires is not None else "never"
        rows.append((one.name, "certificate" if one.serial else "token", expires, ",".join(one.groups)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@user.command("remove", short_help="Remove a user.")
@click.argument("name")
@_data_option
def remove(name: str, data: Path | None) -> None:
    """Remove a user; its credential is refused at once. Roles and bindings stay."""
    from ..runtime.user_accounts import CannotChangeUsers, UserAccounts

    try:
        UserAccounts(data or default_data_directory()).remove(name)
    except CannotChangeUsers as error:
        raise Refusal(str(error)) from error
