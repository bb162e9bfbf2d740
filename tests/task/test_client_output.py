"""SlotClientChannel's window and positions, and what stands in for `sys.stdout` in a worker."""

from __future__ import annotations

from runtime.task.client_output import CLIENT_WINDOW_BYTES, LineRedirect, SlotClientChannel

Sent = list[tuple[str, int, bytes]]


def channel_to(sent: Sent) -> SlotClientChannel:
    return SlotClientChannel(lambda name, position, payload: sent.append((name, position, payload)))


def test_the_channel_takes_everything_but_is_unavailable_until_the_client_has_caught_up() -> None:
    sent: Sent = []
    channel = channel_to(sent)
    channel.send("stdout", b"x" * (CLIENT_WINDOW_BYTES - 1))
    assert channel.is_available()
    channel.send("stdout", b"yz")
    channel.send("collect:1", b"more")
    assert not channel.is_available()
    channel.acknowledge("stdout", 5)
    assert not channel.is_available()
    channel.acknowledge("collect:1", 1)
    assert channel.is_available()
    assert [(name, position) for name, position, _ in sent] == [
        ("stdout", 0),
        ("stdout", CLIENT_WINDOW_BYTES - 1),
        ("collect:1", 0),
    ]


def test_what_is_not_acknowledged_is_sent_again_under_its_positions() -> None:
    sent: Sent = []
    channel = channel_to(sent)
    for payload in (b"one\n", b"two\n", b"three\n"):
        channel.send("stdout", payload)
    channel.send("log", b"warned\n")
    channel.acknowledge("stdout", 6)
    del sent[:]
    channel.send_again(lambda: sent.append(("report", 0, b"")))
    # the second is taken in part
    assert sent == [("report", 0, b""), ("stdout", 4, b"two\n"), ("stdout", 8, b"three\n"), ("log", 0, b"warned\n")]
    channel.acknowledge("stdout", 14)
    # late, twice, and of a channel that nobody has
    channel.acknowledge("stdout", 4)
    channel.acknowledge("log", 7)
    channel.acknowledge("log", 7)
    channel.acknowledge("other", 7)
    del sent[:]
    channel.send_again(lambda: None)
    assert sent == []
    channel.send("stdout", b"four\n")
    assert sent == [("stdout", 14, b"four\n")]


def test_acknowledgements_open_the_window_by_what_is_new_in_them() -> None:
    channel = channel_to([])
    channel.send("stdout", b"x" * CLIENT_WINDOW_BYTES)
    channel.send_again(lambda: None)
    for _ in range(3):
        channel.acknowledge("stdout", 1)
    assert channel.is_available()
    channel.send("stdout", b"y")
    assert not channel.is_available()


def test_whole_lines_are_sent_and_the_last_one_when_the_slot_leaves() -> None:
    sent: Sent = []
    stdout = LineRedirect(channel_to(sent), "stdout")
    print("one", file=stdout)
    print("two\nthr", end="", file=stdout)
    print("ee", 3, end="", file=stdout, flush=True)
    assert sent == [("stdout", 0, b"one\n"), ("stdout", 4, b"two\n")]
    stdout.finish()
    stdout.finish()
    assert sent[2:] == [("stdout", 8, b"three 3\n")]
    assert stdout.writable()
