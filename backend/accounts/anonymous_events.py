"""The limit on events of the audit trail that nobody's requests leave, over all web processes; any thread.

The trail is never pruned, and whoever reaches the page may ask without a login: each refusal is an event. Those of an
address within an hour, and of all together, are listed up to a number; the one that reaches it says so. Failed logins
are counted apart, so that a flood of other requests hides none of them.
"""

from __future__ import annotations

import hashlib
from typing import Final

from backend.accounts.client_address import network_of_client
from backend.accounts.shared_counts import SharedCounts

PERIOD_S: Final = 3600
MAX_OF_ADDRESS: Final = 300
"""Events of one address in a period, about 100 KB. Less: a script with an old token hides what else is tried there."""
MAX_OF_ALL: Final = 3000
"""Events of all addresses in a period: less than 1 MB."""
_LOGIN: Final = "POST api/v1/session"

_counts = SharedCounts("anonymous-events", PERIOD_S)


def listing(action: str, address: str) -> tuple[bool, int]:
    """Count an event of a request of nobody.

    Args:
        action: of the event.
        address: of the client.

    Returns:
        Whether it is to be written; and for how many seconds the further ones are left out, 0: they are not.
    """
    kind = "login" if action == _LOGIN else "other"
    network = hashlib.sha256(network_of_client(address).encode()).hexdigest()
    left_out_s = 0
    # those of an address that are left out take nothing of what all have together
    for name, limit in ((network, MAX_OF_ADDRESS), ("all", MAX_OF_ALL)):
        [count] = _counts.add([f"{kind}:{name}"])
        if count.events > limit:
            return False, 0
        if count.events == limit:
            left_out_s = count.left_s
    return True, left_out_s
