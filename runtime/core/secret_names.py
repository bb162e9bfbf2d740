"""Names that stand before secrets: of options, arguments, columns. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

#: parts of such names, as a regular expression for any case. Words of Kafka, JDBC, S3, Azure and people
SECRET_WORDS: Final = (
    r"password|passwd|passphrase|pwd|secret|token|credential|sasl|jaas|authorization|"
    r"(?:api|access|private|account|shared|secret|encryption|signing)[._-]?key(?:[._-]?id)?"
)
_COLUMN: Final = re.compile(SECRET_WORDS, re.I)
_NO_LETTERS: Final = re.compile(r"[\W_]+")
#: of a longer one, which is rather a value, the two ends are looked at
_MAX_NAME_CHARS: Final = 200


HIDDEN: Final = "******"
"""In place of a value that nobody may see."""
ALL_COLUMNS: Final = "*"
"""Name that stands for all columns, among those to be masked."""


def has_secret_word(text: str) -> bool:
    """Return whether a word that stands before secrets is in a text."""
    return _COLUMN.search(text) is not None


def is_secret_column(name: str) -> bool:
    """Return whether a column of that name looks as if it holds secrets, whatever signs stand between its words. One
    that is only called "key" does not: it is what the stream is keyed by.
    """
    half = _MAX_NAME_CHARS // 2
    return _is_secret(name if len(name) <= _MAX_NAME_CHARS else f"{name[:half]} {name[-half:]}")


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    if not name.isascii():
        # wide letters, and signs that nobody sees between them
        folded = unicodedata.normalize("NFKC", name)
        name = "".join(sign for sign in folded if unicodedata.category(sign) != "Cf")
    return has_secret_word(_NO_LETTERS.sub("_", name))
