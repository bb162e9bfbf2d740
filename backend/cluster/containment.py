"""Containment: a failure of one piece of the leader's work holds up nothing else; that work is repeated later.

A database that is away is told from one that refuses a write: a refusal is the fault of what is written, and recurs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, InternalError, OperationalError, close_old_connections

from backend.cluster.leadership import LeadershipLostError
from backend.cluster.location_checks import StorageSilentError

logger = logging.getLogger(__name__)

DATABASE_AWAY = (OperationalError, InterfaceError, InternalError)
"""Errors that any request to the database raises while it is away, among them the lease's and those of a server that is
read-only after a failover. Any other error is the fault of the request."""


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
        except DATABASE_AWAY as error:
            logger.warning("%s waits for the database: %s", what, error)
            self.database_failed = True
            close_old_connections()
        except StorageSilentError as silent:
            logger.info("%s waits: %s", what, silent)
        except Exception:
            logger.exception("%s failed; it will be retried", what)
            close_old_connections()
