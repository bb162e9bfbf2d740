"""BucketAssigner: chooses the directory of records below a file sink's base path, by the clock or by their content.

A batch is split as a whole: by columns where there are columns, else in one pass over its values. Task's thread only.
Source: Flink, BucketAssigner and DateTimeBucketAssigner; the spelling of partitions is Hive's.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import zoneinfo
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import RowTypeInfo
from runtime.common.types import Row
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null in the name of a directory."""
_JAVA_PATTERN = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
#: Letters, a text in quotes, and all between; a quote without its other one is none of them.
_FORMAT_PARTS = re.compile(r"[A-Za-z]+|'(?:[^']|'')*'|[^A-Za-z']+")
#: Types that are split by columns; other values become Python objects first.
_PLAIN_TYPES = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date32,
)


class BucketAssigner(ABC):
    """Chooses the directory below the base path. Instances are picklable."""

    @abstractmethod
    def split(self, batch: RecordBatch, now_ms: int) -> Sequence[tuple[str, RecordBatch]]:
        """Deal out records that are written now.

        Args:
            batch: has at least one row; its marks mean nothing.
            now_ms: wall-clock time.

        Returns:
            Relative directories, each once, with the rows that go there, in order; "" is the base path.

        Raises:
            SinkError: a record has no bucket.
        """

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Send everything to the base path."""
        return _BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Make a directory per span of wall-clock time, of an hour unless the format says otherwise: a sink's default.

        Args:
            format_str: made of yyyy, MM, dd, HH, mm, ss and other characters; letters stand in quotes:
                "'year='yyyy/'month='MM".
            timezone_id: such as "Europe/Berlin"; None = the machine's.

        Raises:
            ValueError: the format has letters that it must not have, or the zone is unknown.
        """
        return _DateTimeBucketAssigner(format_str, timezone_id)

    @staticmethod
    def by_field(*names: str) -> BucketAssigner:
        """Make a directory per value of fields: `country=DE/day=2024-02-29`. The fields stay in the records.

        Args:
            names: fields of rows or dicts.

        Raises:
            ValueError: there is no name.
        """
        if not names:
            raise ValueError("buckets by field need the name of a field")
        return _FieldBucketAssigner(names)

    @staticmethod
    def by_function(bucket_of: Callable[[Any], str]) -> BucketAssigner:
        """Make a directory per record.

        Args:
            bucket_of: gives a relative path, such as "red/large", for a record; "" is the base path.
        """
        return _FunctionBucketAssigner(bucket_of)


class _BasePathBucketAssigner(BucketAssigner):
    def split(self, batch: RecordBatch, now_ms: int) -> Sequence[tuple[str, RecordBatch]]:
        return (("", batch),)


class _DateTimeBucketAssigner(BucketAssigner):
    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        parts = _FORMAT_PARTS.findall(format_str)
        unknown = [part for part in parts if part[0].isalpha() and part not in _JAVA_PATTERN]
        self._format = "".join(map(_strftime_of, parts))
        if unknown or "".join(parts) != format_str or not parts or ".." in self._format or self._format.startswith("/"):
            raise ValueError(
                f"bucket format {format_str!r} must be made of {', '.join(_JAVA_PATTERN)}, separators, and texts in "
                "quotes"
            )
        try:
            self._zone = None if timezone_id is None else zoneinfo.ZoneInfo(timezone_id)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"unknown time zone {timezone_id!r}") from error

    def split(self, batch: RecordBatch, now_ms: int) -> Sequence[tuple[str, RecordBatch]]:
        now = datetime.datetime.fromtimestamp(now_ms / 1000.0, datetime.UTC)
        return ((now.astimezone(self._zone).strftime(self._format), batch),)


def _strftime_of(part: str) -> str:
    """Translate a part of a format of Java's DateTimeFormatter."""
    if part in _JAVA_PATTERN:
        return _JAVA_PATTERN[part]
    if part.startswith("'"):
        # two quotes are one, outside of a text and inside of it
        part = "'" if part == "''" else part[1:-1].replace("''", "'")
    return part.replace("%", "%%")


class _FieldBucketAssigner(BucketAssigner):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def split(self, batch: RecordBatch, now_ms: int) -> Sequence[tuple[str, RecordBatch]]:
        columns = self._plain_columns(batch)
        if columns is None:
            return _split_by(batch, self._keys_of(batch), self._path)
        codes: npt.NDArray[np.int64] = np.zeros(batch.num_rows, dtype=np.int64)
        for column in columns:
            encoded = column.dictionary_encode(null_encoding="encode")
            if codes.any():
                # small again: the product of many dictionaries would overflow
                codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()

        def bucket_of(row: int) -> str:
            return self._path([column[row].as_py() for column in columns])

        return _split_by_codes(batch, codes, bucket_of)

    def _plain_columns(self, batch: RecordBatch) -> list[pa.Array] | None:
        if not batch.has_arrow:
            return None
        arrow = batch.arrow()
        if any(name not in arrow.schema.names for name in self._names):
            return None
        columns = [arrow.column(name) for name in self._names]
        return columns if all(any(is_kind(c.type) for is_kind in _PLAIN_TYPES) for c in columns) else None

    def _keys_of(self, batch: RecordBatch) -> list[Any]:
        known = batch.type_info.get_field_names() if isinstance(batch.type_info, RowTypeInfo) else ()
        if all(name in known for name in self._names):
            places = [itemgetter(known.index(name)) for name in self._names]
            with contextlib.suppress(TypeError, IndexError):
                return list(zip(*[map(place, batch.values()) for place in places], strict=True))
        return list(map(self._values_of, batch.values()))

    def _values_of(self, value: Any) -> tuple[Any, ...]:
        try:
            # a dict, or a row with field names
            return tuple([value[name] for name in self._names])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            kind = "a row without these fields" if isinstance(value, Row) else type(value).__name__
            raise SinkError(
                f"a record has no fields {list(self._names)} for its bucket: {kind}: {value!r:.200}"
            ) from error

    def _path(self, values: Sequence[Any]) -> str:
        return "/".join(
            f"{quote(name, safe='')}={quote(_text(value), safe='')}"
            for name, value in zip(self._names, values, strict=True)
        )


def _text(value: Any) -> str:
    if value is None:
        return NULL_PARTITION
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


class _FunctionBucketAssigner(BucketAssigner):
    def __init__(self, bucket_of: Callable[[Any], str]) -> None:
        self._bucket_of = bucket_of
        #: names that have passed the check; bounded by the number of directories that the sink makes
        self._known: set[str] = set()

    def split(self, batch: RecordBatch, now_ms: int) -> Sequence[tuple[str, RecordBatch]]:
        buckets = list(map(self._bucket_of, batch.values()))
        for bucket in set(buckets) - self._known:
            _check_bucket(bucket)
            self._known.add(bucket)
        return _split_by(batch, buckets, str)


def _check_bucket(bucket: Any) -> None:
    parts = bucket.split("/") if isinstance(bucket, str) else [""]
    if bucket != "" and (not all(parts) or any(part[0] in "._" or "\0" in part for part in parts)):
        raise SinkError(
            f"bucket {bucket!r} is not a relative path of visible directories: no part may be empty or begin with . or "
            "_"
        )


def _split_by(
    batch: RecordBatch, keys: list[Any], bucket_of: Callable[[Any], str]
) -> Sequence[tuple[str, RecordBatch]]:
    """Put rows of equal key into one bucket.

    Args:
        keys: one per row; values that differ in their type only, 1 and 1.0 and True, count as equal.
        bucket_of: tells the bucket of a key.
    """
    numbers: dict[Any, int] = {}
    try:
        codes = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    except TypeError as error:
        raise SinkError(f"a bucket needs a hashable value: {error}") from error
    return _split_by_codes(batch, codes, lambda row: bucket_of(keys[row]))


def _split_by_codes(
    batch: RecordBatch, codes: npt.NDArray[np.int64], bucket_of: Callable[[int], str]
) -> Sequence[tuple[str, RecordBatch]]:
    """Put rows of equal code into one bucket.

    Args:
        codes: shape (num_rows,).
        bucket_of: tells the bucket of a row.
    """
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    if not len(starts):
        return ((bucket_of(0), batch),)
    return [(bucket_of(int(rows[0])), batch.take(rows)) for rows in np.split(order, starts)]
