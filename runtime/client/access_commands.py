"""The commands about access: users with their roles, and tokens. Passwords are asked for or come from stdin, never from
the command line, which other users of the machine see."""

from __future__ import annotations

import argparse
import getpass
import sys
from contextlib import suppress
from typing import Any

from runtime.client.arguments import Actions, with_json
from runtime.client.errors import ClientError
from runtime.client.jobs import time_text
from runtime.client.rest import RestClient
from runtime.client.tables import table
from runtime.client.terminal import SUCCESS, Terminal

ROLES = ("viewer", "operator", "developer", "admin")
DEFAULT_DAYS = 90


def add_user(actions: Actions) -> None:
    """Add `user`."""
    parser = actions.add_parser(
        "user",
        help="list users, add, change and delete them",
        description="Manage the users of the cluster; administrators only. Each role has the rights of earlier ones:\n"
        "viewer (sees everything), operator (stops jobs, takes savepoints), developer (submits programs), admin.",
        example="tidemark user add dora --role operator --password\ntidemark user set dora --role developer",
    )
    verbs: Actions = parser.add_subparsers(required=True, metavar="ACTION", title="actions")
    listing = verbs.add_parser("list", help="list users", description="List users.", example="tidemark user list")
    listing.set_defaults(command=_list_users)
    adding = verbs.add_parser(
        "add",
        help="add a user",
        description="Add a user. Without a password, the user logs in with tokens that you make.",
        example="tidemark user add dora --role operator --password",
    )
    changing = verbs.add_parser(
        "set",
        help="change role, password, or whether a user may log in",
        description="Change a user; changes apply at once, also to open sessions.",
        example="tidemark user set dora --role viewer\ntidemark user set dora --off",
    )
    deleting = verbs.add_parser(
        "delete",
        help="delete a user with the tokens",
        description="Delete a user with the tokens; jobs remain.",
        example="tidemark user delete dora",
    )
    for verb in (adding, changing, deleting):
        verb.add_argument("name", metavar="NAME", help="name of the user")
    for verb in (adding, changing):
        verb.add_argument("--password", action="store_true", help="ask for a password, or read it from stdin")
    adding.add_argument("--role", choices=ROLES, default="viewer", help="default: viewer")
    changing.add_argument("--role", choices=ROLES, help="the new role")
    switch = changing.add_mutually_exclusive_group()
    switch.add_argument("--on", dest="is_active", action="store_true", default=None, help="let the user log in again")
    switch.add_argument("--off", dest="is_active", action="store_false", default=None, help="log the user out for good")
    for verb in (listing, adding, changing, deleting):
        with_json(verb)
    adding.set_defaults(command=_add_user)
    changing.set_defaults(command=_change_user)
    deleting.set_defaults(command=_delete_user)


def add_token(actions: Actions) -> None:
    """Add `token`."""
    parser = actions.add_parser(
        "token",
        help="list, make and revoke tokens",
        description="Manage the tokens with which programs log in: your own, or as an administrator anybody's.",
        example="tidemark token make dashboard --scope viewer --days 365\ntidemark token revoke 7",
    )
    verbs: Actions = parser.add_subparsers(required=True, metavar="ACTION", title="actions")
    listing = verbs.add_parser("list", help="list tokens", description="List tokens.", example="tidemark token list")
    listing.add_argument("--all", action="store_true", help="the tokens of all users; administrators only")
    making = verbs.add_parser(
        "make",
        help="make a token",
        description="Make a token and print it, this once.",
        example="tidemark token make dashboard --scope viewer",
    )
    making.add_argument("name", metavar="NAME", help="name of the token; unique among the owner's")
    making.add_argument("--scope", choices=ROLES, help="highest role that it gives; default: the owner's")
    making.add_argument("--days", type=int, default=DEFAULT_DAYS, help="days until it expires; 0: never (default: 90)")
    making.add_argument(
        "--user", default="", help="owner of the token (default: you); only administrators may name another user"
    )
    revoking = verbs.add_parser(
        "revoke",
        help="revoke a token at once",
        description="Revoke a token at once, with the sessions that began with it.",
        example="tidemark token revoke 7",
    )
    revoking.add_argument("id", metavar="ID", type=int, help="as `tidemark token list` shows it")
    for verb in (listing, making, revoking):
        with_json(verb)
    listing.set_defaults(command=_list_tokens)
    making.set_defaults(command=_make_token)
    revoking.set_defaults(command=_revoke_token)


# --- users ------------------------------------------------------------------------------------------------------------


def _list_users(client: RestClient, _: argparse.Namespace, terminal: Terminal) -> int:
    users = client.users()
    rows = [
        [
            user["name"],
            user["role"] if user["is_active"] else f"{user['role']} (off)",
            "-" if user["last_login"] is None else time_text(user["last_login"]),
            str(user["tokens"]),
        ]
        for user in users
    ]
    terminal.result(users, *table([["NAME", "ROLE", "LAST LOGIN", "TOKENS"], *rows], right=(3,)))
    return SUCCESS


def _add_user(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    given: dict[str, Any] = {"name": options.name, "role": options.role}
    if options.password:
        given["password"] = _password()
    terminal.result(client.add_user(given), f"{options.name} is a user with the role {options.role}.")
    return SUCCESS


def _change_user(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    given: dict[str, Any] = {}
    if options.role is not None:
        given["role"] = options.role
    if options.is_active is not None:
        given["is_active"] = options.is_active
    if options.password:
        given["password"] = _password()
    if not given:
        raise ClientError("say what to change: --role, --password, --on or --off")
    user = client.change_user(options.name, given)
    terminal.result(user, f"{user['name']}: {user['role']}, {'on' if user['is_active'] else 'off'}.")
    return SUCCESS


def _delete_user(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    client.delete_user(options.name)
    terminal.result({}, f"{options.name} is deleted.")
    return SUCCESS


def _password() -> str:
    text = ""
    # closed by the shell: <&-
    if sys.stdin is not None:
        # Ctrl-D instead of a password
        with suppress(EOFError):
            text = getpass.getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not text:
        raise ClientError("the password is empty")
    return text


# --- tokens -----------------------------------------------------------------------------------------------------------


def _list_tokens(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    tokens = client.tokens(of_all=options.all)
    rows = [
        [
            str(token["id"]),
            token["name"],
            token["user"],
            token["scope"] or "all",
            "never" if token["expires_at"] is None else time_text(token["expires_at"]),
            "-" if token["last_used"] is None else time_text(token["last_used"]),
        ]
        for token in tokens
    ]
    terminal.result(tokens, *table([["ID", "NAME", "USER", "SCOPE", "EXPIRES", "LAST USED"], *rows], right=(0,)))
    return SUCCESS


def _make_token(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    given: dict[str, Any] = {"name": options.name, "days": options.days or None}
    if options.scope is not None:
        given["scope"] = options.scope
    if options.user:
        given["user"] = options.user
    made = client.make_token(given)
    terminal.result(made, str(made["token"]))
    return SUCCESS


def _revoke_token(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    client.revoke_token(options.id)
    terminal.result({}, f"Token {options.id} is revoked.")
    return SUCCESS
