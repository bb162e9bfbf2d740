"""Channels between subtasks: partitioners, record writers, byte credits, frames, and the transports that carry them.

A task writes through a `RecordWriter` (which deals rows out with a `ChannelSelector`) into output channels and polls
input channels; a `NetworkEnvironment` makes both and connects slots: `LocalNetworkEnvironment` inside one process,
`FlightNetworkEnvironment` across processes. No operator, checkpoint or job code in here.
"""
