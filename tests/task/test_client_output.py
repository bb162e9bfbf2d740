"""SlotClientChannel's window, and what stands in for `sys.stdout` in a worker."""

from __future__ import annotations

from runtime.task.client_output import CLIENT_WINDOW_BYTES, LineRedirect, SlotClientChannel


def test_the_channel_takes_everything_but_is_unavailable_until_the_client_has_caught_up() -> None:
    sent: list[tuple[str, bytes]] = []
    channel = SlotClientChannel(lambda name, payload: sent.append((name, payload)))
    channel.send("stdout", b"x" * (CLIENT_WINDOW_BYTES - 1))
    assert channel.is_available()
    channel.send("stdout", b"yz")
    channel.send("collect:1", b"more")
    assert not channel.is_available()
    channel.acknowledge(5)
    assert not channel.is_available()
    channel.acknowledge(1)
    assert channel.is_available()
    assert [name for name, _ in sent] == ["stdout", "stdout", "collect:1"]


def test_whole_lines_are_sent_and_the_last_one_when_the_slot_leaves() -> None:
    sent: list[tuple[str, bytes]] = []
    stdout = LineRedirect(SlotClientChannel(lambda name, payload: sent.append((name, payload))), "stdout")
    print("one", file=stdout)
    print("two\nthr", end="", file=stdout)
    print("ee", 3, end="", file=stdout, flush=True)
    assert sent == [("stdout", b"one\n"), ("stdout", b"two\n")]
    stdout.finish()
    stdout.finish()
    assert sent[2:] == [("stdout", b"three 3\n")]
    assert stdout.writable()
