"""The limits on failed logins, over all web processes; any thread.

Failures of an account count by the address that they come from, and make that address wait before it tries this account
again, twice as long after each further one: whoever guesses at somebody's account from elsewhere does not lock the
owner out. All failures of an address, whatever the accounts, have a limit of their own.
"""

from __future__ import annotations

import hashlib

from backend.accounts.client_address import network_of_client
from backend.accounts.shared_counts import PERIOD_S, Count, SharedCounts

FREE_FAILURES = 5
"""An account's failures from one address before that has to wait. Less: whoever mistypes waits."""
MAX_WAIT_S = 900
"""The longest wait: some hundred guesses a day."""
MAX_FAILURES_OF_ADDRESS = 30
"""Of all accounts within `PERIOD_S`. Less: an office behind one address locks itself out; more: each of many accounts
is tried with the usual passwords."""

#: prolonged by each failure, and longer than the longest wait: the wait is told by how much of it is left
_by_account = SharedCounts("failed-logins-of-account", period_s=4 * MAX_WAIT_S, is_prolonged=True)
_by_address = SharedCounts("failed-logins", period_s=PERIOD_S)


def wait_s(account: str, address: str) -> int:
    """Return for how many seconds an address may not try to log in to an account; 0: it may.

    Args:
        account: name of a user; "": a token was given.
        address: of the client.
    """
    [of_address], [of_account] = _by_address.read([_name(address)]), _by_account.read([_name(address, account)])
    return _wait_s(of_address, of_account)


def _wait_s(of_address: Count, of_account: Count) -> int:
    if of_address.events >= MAX_FAILURES_OF_ADDRESS:
        return of_address.left_s
    if of_account.events < FREE_FAILURES:
        return 0
    since_s = _by_account.period_s - of_account.left_s
    # 1, 2, 4, … seconds
    wait = min(MAX_WAIT_S, 1 << min(of_account.events - FREE_FAILURES, 20))
    return max(0, wait - since_s)


def begin_try(account: str, address: str) -> int:
    """Count a try as a failure until `note_success`, or return for how many seconds it has to wait; 0: it was counted.

    Counted before it is judged, which takes a tenth of a second for a password: tries at the same time would not know
    of each other.
    """
    by_address, by_account = _name(address), _name(address, account)
    while True:
        [of_address], [of_account] = _by_address.read([by_address]), _by_account.read([by_account])
        wait = _wait_s(of_address, of_account)
        if wait:
            return wait
        # of several at a time one is counted, and the others look again
        if _by_address.add_if(by_address, of_address):
            if _by_account.add_if(by_account, of_account):
                return 0
            _by_address.take_back(by_address)


def give_back(account: str, address: str) -> None:
    """Take back a try that was not judged."""
    _by_address.take_back(_name(address))
    _by_account.take_back(_name(address, account))


def note_success(account: str, address: str) -> None:
    """Forget the failures of an account from one address: its owner has mistyped. Those of the address go on counting,
    as they may be of other accounts."""
    _by_address.take_back(_name(address))
    _by_account.forget(_name(address, account))


def _name(address: str, *account: str) -> str:
    """Return the name of a counter: no names of users in keys, nor whatever characters a client sends."""
    return hashlib.sha256("\0".join((network_of_client(address), *account)).encode()).hexdigest()
