"""Storage of a slot: its directory, its settings, and the progress of what it restores."""

from __future__ import annotations

import threading
from pathlib import Path

from runtime.checkpoint.state_files import DEFAULT_RETRIES
from runtime.common import Configuration
from runtime.core.ids import Attempt, SlotId
from runtime.task.slot_storage import SlotStorage


def storage_of(told: list[int]) -> SlotStorage:
    return SlotStorage(SlotId(2), Attempt(5), None, DEFAULT_RETRIES, told.append)


def test_the_directory_is_that_of_job_attempt_and_slot_and_goes_with_the_slot(tmp_path: Path) -> None:
    storage = storage_of([])
    storage.open(Configuration.from_dict({"io.tmp.dirs": str(tmp_path)}), "0123456789abcdef")
    path = storage.working_directory()
    assert path.is_relative_to(tmp_path) and path.name.startswith("01234567-5-2-")
    assert storage.working_directory() == path
    storage.close()
    storage.close()
    assert not path.exists()


def test_snapshots_are_compressed_as_the_job_says() -> None:
    storage = storage_of([])
    assert storage.compression == "none"
    storage.open(Configuration.from_dict({"execution.checkpointing.snapshot-compression": "true"}), "job")
    assert storage.compression == "zstd"
    storage.close()


def test_what_several_threads_have_read_is_added_up_and_told_each_time() -> None:
    told: list[int] = []
    storage = storage_of(told)

    def read() -> None:
        reader = storage.reader(None)
        for _ in range(1_000):
            reader._on_read(3)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert storage.restored_bytes == 12_000
    assert sorted(told) == list(range(3, 12_001, 3))
