"""Names that stand before secrets: of options, arguments, columns. Pure."""

from __future__ import annotations

import re
from typing import Final

#: parts of such names, as a regular expression for any case. Words of Kafka, JDBC, S3, Azure and people
SECRET_WORDS: Final = (
    r"password|passwd|passphrase|pwd|secret|token|credential|sasl|jaas|authorization|"
    r"(?:api|access|private|account|shared|secret|encryption|signing)[._-]?key(?:[._-]?id)?"
)
_COLUMN: Final = re.compile(SECRET_WORDS, re.I)


def is_secret_column(name: str) -> bool:
    """Return whether a column of that name looks as if it holds secrets. One that is only called "key" does not: it is
    what the stream is keyed by.
    """
    return _COLUMN.search(name) is not None
