"""Containment: failures of the database are told from those of a job."""

from __future__ import annotations

import django.db
import pytest

from backend.cluster.containment import Containment
from backend.cluster.leadership import LeadershipLostError, LeaseLapsedError, SlowDatabaseError


@pytest.mark.django_db
@pytest.mark.parametrize(
    "failure",
    [
        *(django.db.OperationalError, django.db.InterfaceError, django.db.InternalError),
        *(LeaseLapsedError, SlowDatabaseError),
    ],
)
def test_what_a_database_that_is_away_raises_is_noted_as_its_failure(failure: type[Exception]) -> None:
    containment = Containment()
    with containment.of("job 1"):
        raise failure("the connection is closed")
    assert containment.database_failed


@pytest.mark.django_db
@pytest.mark.parametrize(
    "failure", [RuntimeError, django.db.DataError, django.db.IntegrityError, django.db.ProgrammingError]
)
def test_an_error_of_a_job_is_contained_and_is_no_failure_of_the_database(failure: type[Exception]) -> None:
    containment = Containment()
    with containment.of("job 1"):
        raise failure("broken")
    assert not containment.database_failed


def test_the_loss_of_the_leadership_is_not_contained() -> None:
    with pytest.raises(LeadershipLostError), Containment().of("job 1"):
        raise LeadershipLostError(1, 2, "another")
