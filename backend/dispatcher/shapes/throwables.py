"""Failures in the form that Flink's Java client needs: it reads only a serialized Java object with the message.

The object is an `org.apache.flink.util.SerializedThrowable` without cause, stack and original exception, written as by
Java's ObjectOutputStream; only three texts vary: message, stack trace and class. Clients not written in Java read the
other fields. Source: Flink 2.3, SerializedThrowable and SerializedThrowableSerializer; Java Object Serialization
Specification, chapter 6.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Any, Final

OPERATION_FAILED: Final = "tidemark.OperationFailed"
"""Class name of an operation's failure that has no class of its own."""
JOB_FAILED: Final = "tidemark.JobFailed"
"""Class name of a job's failure that has no class of its own."""
MAX_CHARS: Final = 100_000
"""Maximum length of a text; only tracebacks of recursions are longer, without saying more."""

# tags of the stream
_OBJECT, _STRING, _LONG_STRING, _ARRAY, _NULL, _END = b"sr", b"t", b"|", b"ur", b"p", b"x"
_MAX_SHORT_BYTES: Final = 0xFFFF


def throwable(message: str, name: str = OPERATION_FAILED, stack_trace: str | None = None) -> dict[str, Any]:
    """Return a failure.

    Args:
        message: the error message.
        name: the class of the error.
        stack_trace: the program's stack trace; None: the message stands in for it.
    """
    message = message[:MAX_CHARS]
    # Java's text begins with the class, unless the message does already
    titled = message if message.startswith(f"{name}: ") or message == name else f"{name}: {message}"
    trace = (stack_trace or titled)[:MAX_CHARS]
    return {
        "class": name,
        "message": message,
        "stack-trace": trace,
        "serialized-throwable": b64encode(_serialized(name, titled, trace)).decode(),
    }


def _serialized(name: str, titled: str, trace: str) -> bytes:
    own = (
        _class("org.apache.flink.util.SerializedThrowable", "65169df51fa713f3", 2, 3)
        + b"L"
        + _utf("fullStringifiedStackTrace")
        + _STRING
        + _utf("Ljava/lang/String;")
        + b"L"
        + _utf("originalErrorClassName")
        + _FIRST_STRING
        + b"["
        + _utf("serializedException")
        + _STRING
        + _utf("[B")
        + _END
    )
    parents = (
        _OBJECT[1:]
        + _class("java.lang.Exception", "d0fd1f3e1a3b1cc4", 2, 0)
        + _END
        + _OBJECT[1:]
        + _class("java.lang.Throwable", "d5c635273977b8cb", 3, 4)
        + b"L"
        + _utf("cause")
        + _STRING
        + _utf("Ljava/lang/Throwable;")
        + b"L"
        + _utf("detailMessage")
        + _FIRST_STRING
        + b"["
        + _utf("stackTrace")
        + _STRING
        + _utf("[Ljava/lang/StackTraceElement;")
        + b"L"
        + _utf("suppressedExceptions")
        + _STRING
        + _utf("Ljava/util/List;")
        + _END
        + _NULL
    )
    throwable_fields = (
        _NULL
        + _string(titled)
        + _ARRAY
        + _class("[Ljava.lang.StackTraceElement;", "02462a3c3cfd2239", 2, 0)
        + _END
        + _NULL
        + (0).to_bytes(4, "big")
        + _OBJECT
        + _class("java.util.Collections$EmptyList", "7ab817b43ca79ede", 2, 0)
        + _END
        + _NULL
        + _END
    )
    own_fields = _string(trace) + _string(name) + _NULL
    return b"\xac\xed\x00\x05" + _OBJECT + own + parents + throwable_fields + own_fields


#: a reference to the first string of the stream, the name of the class String
_FIRST_STRING: Final = b"q\x00\x7e\x00\x01"


def _class(name: str, serial_version: str, flags: int, fields: int) -> bytes:
    """Return the start of a class description, after its tag."""
    return _utf(name) + bytes.fromhex(serial_version) + bytes([flags]) + fields.to_bytes(2, "big")


def _utf(text: str) -> bytes:
    data = _modified_utf8(text)
    return len(data).to_bytes(2, "big") + data


def _string(text: str) -> bytes:
    """Return a String object; a length that does not fit in two bytes is written with eight."""
    data = _modified_utf8(text)
    if len(data) <= _MAX_SHORT_BYTES:
        return _STRING + len(data).to_bytes(2, "big") + data
    return _LONG_STRING + len(data).to_bytes(8, "big") + data


def _modified_utf8(text: str) -> bytes:
    """Encode as Java's modified UTF-8: NUL takes two bytes; characters outside of the BMP are written as surrogates."""
    units = text.encode("utf-16-be", "surrogatepass")
    plain = "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))
    return plain.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
