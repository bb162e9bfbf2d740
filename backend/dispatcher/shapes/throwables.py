"""Failures as Flink's Java client takes them: it reads nothing but a serialized Java object with the message in it.

The object is an `org.apache.flink.util.SerializedThrowable` with no cause, no stack and no original exception, in the
form of Java's ObjectOutputStream; what differs from one to the next are three texts. Clients that are not Java's read
the fields beside it. Source: Flink 2.3, SerializedThrowable and SerializedThrowableSerializer; Java Object
Serialization Specification, chapter 6.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

NAME: Final = "tidemark.OperationFailed"
"""What stands for the failure's class."""
MAX_CHARS: Final = 8_000
"""Of a message. The format's own limit is 64 KiB of each text."""

# tags of the stream: TC_OBJECT TC_CLASSDESC, TC_STRING, TC_ARRAY, TC_NULL, TC_ENDBLOCKDATA
_OBJECT, _STRING, _ARRAY, _NULL, _END = b"sr", b"t", b"ur", b"p", b"x"


def throwable(message: str) -> dict[str, Any]:
    """A failure with that message."""
    stack = f"{NAME}: {message}"
    return {
        "class": NAME,
        "message": message,
        "stack-trace": stack,
        "serialized-throwable": b64encode(_serialized(message[:MAX_CHARS])).decode(),
    }


def _serialized(message: str) -> bytes:
    stack = f"{NAME}: {message}"
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
        + _STRING
        + _utf(stack)
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
    own_fields = _STRING + _utf(f"{stack}\n") + _STRING + _utf(NAME) + _NULL
    return b"\xac\xed\x00\x05" + _OBJECT + own + parents + throwable_fields + own_fields


#: a reference to the first text of the stream, the name of the class String
_FIRST_STRING: Final = b"q\x00\x7e\x00\x01"


def _class(name: str, serial_version: str, flags: int, fields: int) -> bytes:
    """What a class description begins with, behind its tag."""
    return _utf(name) + bytes.fromhex(serial_version) + bytes([flags]) + fields.to_bytes(2, "big")


def _utf(text: str) -> bytes:
    # Java writes NUL and what lies outside of the basic plane in a way of its own
    plain = "".join(c if "\0" < c <= "\uffff" and not "\ud800" <= c <= "\udfff" else "?" for c in text)
    data = plain.encode()
    return len(data).to_bytes(2, "big") + data
