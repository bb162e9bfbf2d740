"""A producer slot in a process of its own, for tests that stop or kill it: prints its address, then writes for ever."""

from __future__ import annotations

import sys
import threading

from runtime.core.batch import RecordBatch
from runtime.core.ids import Attempt, SlotId
from runtime.network.channel import ChannelId
from runtime.network.flight import FlightNetworkEnvironment


def main(peer_address: str) -> None:
    environment = FlightNetworkEnvironment(SlotId(0), Attempt(4), "secret", "127.0.0.1")
    changed = threading.Event()
    environment.set_listener(changed.set)
    out = environment.create_output_channel(ChannelId(1, 0, 0), SlotId(1), None)
    back = environment.create_input_channel(ChannelId(2, 0, 0), SlotId(1), None)
    environment.connect({SlotId(1): peer_address})
    print(environment.address, flush=True)
    while not environment.poll_failures():
        while out.is_available():
            out.add(RecordBatch.of_values(list(range(1000))))
        while back.poll() is not None:
            pass
        changed.wait(1.0)
        changed.clear()


if __name__ == "__main__":
    main(sys.argv[1])
