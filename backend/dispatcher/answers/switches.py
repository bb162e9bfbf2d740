"""Types of the route of switches of the execution, for the contract with clients."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Execution = Literal["micro-batch", "continuous"]
SwitchState = Literal["CHECKED", "STOPPING", "SUBMITTED", "RUNNING", "ROLLING_BACK", "ROLLED_BACK", "FAILED"]


class NewSwitch(TypedDict):
    execution: Execution
    """How the job is to be executed."""
    key: NotRequired[str]
    """8 to 100 printable characters without blanks: a key makes one switch, however often it is sent."""


class Switch(TypedDict):
    """Under way until its state is RUNNING, ROLLED_BACK or FAILED."""

    id: str
    execution: Execution
    state: SwitchState
    state_times: dict[str, int]
    """State → epoch ms at which it was entered."""
    message: str
    """Why it failed or was rolled back, or what it waits for."""
    savepoint: str | None
    """Of the old job; null: there is none yet."""
    old_job_id: str
    job_id: str | None
    """The new job; null: there is none yet."""
    goes_on_as: str | None
    """The job that has taken the place of the old one: the new one, or the old one again under another id."""
    created_at: int
    created_by: str | None


class JobSwitch(TypedDict):
    switch: Switch | None
    """The newest one that the job is part of, as the old or the new one; null: there is none."""
