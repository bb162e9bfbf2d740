"""Containment: a failure of one piece of the leader's work holds up nothing else; that work is repeated later."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import Error as DatabaseFailure
from django.db import close_old_connections

from backend.cluster.leadership import LeadershipLostError

logger = logging.getLogger(__name__)


class Containment:
    """Contains failures. Used by the jobmanager's loop only."""

    def __init__(self) -> None:
        #: whether the database has failed since this was last set to False
        self.database_failed = False

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Contain failures of the block, apart from the loss of the leadership.

        Args:
            what: the work, for the log.

        Raises:
            LeadershipLostError: another jobmanager leads.
        """
        try:
            yield
        except LeadershipLostError:
            raise
        except DatabaseFailure as error:
            logger.warning("%s waits for the database: %s", what, error)
            self.database_failed = True
            close_old_connections()
        except Exception:
            logger.exception("%s failed; it is retried", what)
