"""The two servers that slots have and see, in a process of their own, for tests that look at its memory: prints their
addresses, and serves until its input ends."""

from __future__ import annotations

import sys

from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.control_server import ControlServer
from runtime.network.channel import ChannelId
from runtime.network.flight import FlightNetworkEnvironment


def main() -> None:
    control = ControlServer("127.0.0.1", lambda _: "secret", lambda _, __: None, lambda _, __, ___: None)
    network = FlightNetworkEnvironment(SlotId(0), Attempt(4), "secret", "127.0.0.1")
    network.create_output_channel(ChannelId(1, 0, 0), SlotId(1), None)
    network.connect({})
    print(control.address, network.address, flush=True)
    sys.stdin.read()
    network.close()
    control.stop()


if __name__ == "__main__":
    main()
