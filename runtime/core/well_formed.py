"""Text as every reader can have it: users' code puts anything into a message; a database or a log takes less. Pure."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """Return the text with NUL and unpaired surrogates replaced by U+FFFD.

    PostgreSQL stores neither of them, and UTF-8 has no surrogates.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def shortened(text: str, most: int) -> str:
    """Return the text, or its beginning and its end with the number of characters that are left out between them.

    Args:
        text: the text.
        most: number of characters that stay.
    """
    if len(text) <= most:
        return text
    kept = most // 2
    return f"{text[:kept]} … ({len(text) - 2 * kept} more characters) … {text[-kept:]}"
