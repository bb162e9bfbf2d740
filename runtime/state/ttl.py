"""StateTtlConfig: how long state lives after it was last touched. Plain values, PyFlink's names.

Time to live is measured in processing time. Expired state is dropped when it is read, and in the background according
to the strategies: hashmap visits a few keys on each access (incremental cleanup), rocksdb filters while it compacts.
Source: Flink, StateTtlConfig.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, TypeAlias


def ttl_millis(ttl: Any) -> int:
    """Return the milliseconds of a Time, a Duration, a timedelta or an int (already ms).

    Raises:
        TypeError: it is none of these.
        ValueError: not positive.
    """
    for method in ("to_milliseconds", "to_millis"):
        if hasattr(ttl, method):
            millis = int(getattr(ttl, method)())
            break
    else:
        if hasattr(ttl, "total_seconds"):
            millis = round(ttl.total_seconds() * 1000)
        elif isinstance(ttl, int) and not isinstance(ttl, bool):
            millis = ttl
        else:
            raise TypeError(f"a time to live must be a Duration, a Time, a timedelta or int milliseconds, not {ttl!r}")
    if millis <= 0:
        raise ValueError(f"a time to live must be positive, not {millis} ms")
    return millis


class TtlUpdateType(enum.Enum):
    """Accesses that prolong the life of state."""

    Disabled = 0
    """Nothing expires."""
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class TtlStateVisibility(enum.Enum):
    """Visibility of values that have expired but still exist."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class TtlTime(enum.Enum):
    """The clock by which state ages."""

    ProcessingTime = 0


class TtlCleanupKind(enum.Enum):
    """Kinds of cleanup."""

    FULL_STATE_SCAN_SNAPSHOT = 0
    INCREMENTAL_CLEANUP = 1
    ROCKSDB_COMPACTION_FILTER = 2


class TtlCleanup:
    """Base of the cleanup configurations."""


class EmptyTtlCleanup(TtlCleanup):
    """A strategy without parameters."""


class IncrementalTtlCleanup(TtlCleanup):
    """Check some keys for expired state on each access."""

    def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
        self._cleanup_size = cleanup_size
        self._run_cleanup_for_every_record = run_cleanup_for_every_record

    def get_cleanup_size(self) -> int:
        """Return the number of keys that are visited on each access of the state."""
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        return self._run_cleanup_for_every_record


class RocksdbTtlCleanup(TtlCleanup):
    """Drop expired state while RocksDB compacts."""

    def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Any = None) -> None:
        self._query_time_after_num_entries = query_time_after_num_entries
        self._periodic_compaction_time = periodic_compaction_time

    def get_query_time_after_num_entries(self) -> int:
        return self._query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Any:
        """Return a Duration, or None for the default of 30 days."""
        return self._periodic_compaction_time


class TtlCleanupStrategies:
    """Strategies that remove expired state, besides removal on read."""

    Strategies = TtlCleanupKind
    CleanupStrategy = TtlCleanup
    EmptyCleanupStrategy = EmptyTtlCleanup
    IncrementalCleanupStrategy = IncrementalTtlCleanup
    RocksdbCompactFilterCleanupStrategy = RocksdbTtlCleanup
    EMPTY_STRATEGY = EmptyTtlCleanup()

    def __init__(self, strategies: Mapping[TtlCleanupKind, TtlCleanup], is_cleanup_in_background: bool) -> None:
        self._strategies = dict(strategies)
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Return whether a snapshot omits expired state."""
        return TtlCleanupKind.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> IncrementalTtlCleanup | None:
        """Return the configured strategy; otherwise 5 keys per access, or None if background cleanup is off."""
        default = IncrementalTtlCleanup(5, False) if self._is_cleanup_in_background else None
        strategy = self._strategies.get(TtlCleanupKind.INCREMENTAL_CLEANUP, default)
        assert strategy is None or isinstance(strategy, IncrementalTtlCleanup)
        return strategy

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbTtlCleanup | None:
        """Return the configured strategy; otherwise one that queries the time every 1000 entries, or None if cleanup is
        off.
        """
        default = RocksdbTtlCleanup(1000) if self._is_cleanup_in_background else None
        strategy = self._strategies.get(TtlCleanupKind.ROCKSDB_COMPACTION_FILTER, default)
        assert strategy is None or isinstance(strategy, RocksdbTtlCleanup)
        return strategy


class TtlConfigBuilder:
    """Builds a StateTtlConfig; starts as on-create-and-write, never-return-expired, background cleanup on."""

    def __init__(self, ttl: Any) -> None:
        self._ttl = ttl
        self._update_type = TtlUpdateType.OnCreateAndWrite
        self._state_visibility = TtlStateVisibility.NeverReturnExpired
        self._ttl_time_characteristic = TtlTime.ProcessingTime
        self._is_cleanup_in_background = True
        self._strategies: dict[TtlCleanupKind, TtlCleanup] = {}

    def set_update_type(self, update_type: TtlUpdateType) -> TtlConfigBuilder:
        self._update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> TtlConfigBuilder:
        return self.set_update_type(TtlUpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> TtlConfigBuilder:
        return self.set_update_type(TtlUpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: TtlStateVisibility) -> TtlConfigBuilder:
        self._state_visibility = state_visibility
        return self

    def return_expired_if_not_cleaned_up(self) -> TtlConfigBuilder:
        return self.set_state_visibility(TtlStateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> TtlConfigBuilder:
        return self.set_state_visibility(TtlStateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: TtlTime) -> TtlConfigBuilder:
        self._ttl_time_characteristic = ttl_time_characteristic
        return self

    def use_processing_time(self) -> TtlConfigBuilder:
        return self.set_ttl_time_characteristic(TtlTime.ProcessingTime)

    def cleanup_full_snapshot(self) -> TtlConfigBuilder:
        """Omit expired state from snapshots; state in memory stays."""
        self._strategies[TtlCleanupKind.FULL_STATE_SCAN_SNAPSHOT] = TtlCleanupStrategies.EMPTY_STRATEGY
        return self

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool = False) -> TtlConfigBuilder:
        """Check `cleanup_size` keys for expired state on each access of the state (hashmap only).

        Raises:
            ValueError: cleanup_size is not positive.
            NotImplementedError: cleanup for every record is requested; cleanup happens on access only.
        """
        if cleanup_size <= 0:
            raise ValueError(f"cleanup_size must be positive, not {cleanup_size}")
        if run_cleanup_for_every_record:
            raise NotImplementedError("expired state is cleaned up when state is accessed, not for every record")
        self._strategies[TtlCleanupKind.INCREMENTAL_CLEANUP] = IncrementalTtlCleanup(cleanup_size, False)
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Any = None
    ) -> TtlConfigBuilder:
        """Drop expired state while RocksDB compacts; no effect on hashmap state."""
        self._strategies[TtlCleanupKind.ROCKSDB_COMPACTION_FILTER] = RocksdbTtlCleanup(
            query_time_after_num_entries, periodic_compaction_time
        )
        return self

    def disable_cleanup_in_background(self) -> TtlConfigBuilder:
        """Do no cleanup in the background, unless a strategy for it was chosen."""
        self._is_cleanup_in_background = False
        return self

    def set_ttl(self, ttl: Any) -> TtlConfigBuilder:
        self._ttl = ttl
        return self

    def build(self) -> StateTtlConfig:
        """Make the configuration.

        Raises:
            ValueError: the time to live is not positive.
        """
        return StateTtlConfig(
            self._update_type,
            self._state_visibility,
            self._ttl_time_characteristic,
            self._ttl,
            TtlCleanupStrategies(self._strategies, self._is_cleanup_in_background),
        )


class StateTtlConfig:
    """Time to live of a state, by `StateDescriptor.enable_time_to_live`."""

    UpdateType: TypeAlias = TtlUpdateType
    StateVisibility: TypeAlias = TtlStateVisibility
    TtlTimeCharacteristic: TypeAlias = TtlTime
    Builder: TypeAlias = TtlConfigBuilder
    CleanupStrategies: TypeAlias = TtlCleanupStrategies

    def __init__(
        self,
        update_type: TtlUpdateType,
        state_visibility: TtlStateVisibility,
        ttl_time_characteristic: TtlTime,
        ttl: Any,
        cleanup_strategies: TtlCleanupStrategies,
    ) -> None:
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies
        #: the time to live in ms, read once: it is needed on each access
        self.ttl_ms = ttl_millis(ttl)

    @staticmethod
    def new_builder(ttl: Any) -> TtlConfigBuilder:
        """Return a builder; `ttl` is a Duration, a Time, a timedelta or int milliseconds."""
        return TtlConfigBuilder(ttl)

    def get_update_type(self) -> TtlUpdateType:
        return self._update_type

    def get_state_visibility(self) -> TtlStateVisibility:
        return self._state_visibility

    def get_ttl(self) -> Any:
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTime:
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        return self._update_type is not TtlUpdateType.Disabled

    def get_cleanup_strategies(self) -> TtlCleanupStrategies:
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, state_visibility={self._state_visibility}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic}, ttl={self._ttl}>"
        )
