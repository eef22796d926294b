"""How a handler is run by Airflow: the keys of its YAML file that say when, by whom, how many."""

from __future__ import annotations

from typing import Annotated, Final, Self

from croniter import croniter
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

CONTINUOUS: Final = "@continuous"
"""The schedule that starts the next run as soon as the last one has ended; one run at a time."""

Tag = Annotated[str, Field(min_length=1, max_length=100)]


class Operation(BaseModel):
    """When a handler runs, and how it shows in Airflow.

    `schedule` is a cron expression in UTC, one of its presets such as @hourly, or @continuous;
    without one a handler is run by hand. `max_active_runs` bounds how many of its runs may overlap,
    most of them waiting for their retries. `pool` is an Airflow pool that its evaluation and
    execution take a slot of. `owner` and `tags` are those of its DAG.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schedule: str | None = None
    owner: Annotated[str, Field(min_length=1, max_length=500)] = "mqdlq"
    tags: tuple[Tag, ...] = ()
    max_active_runs: Annotated[int, Field(ge=1, le=100)] = 4
    pool: Annotated[str, Field(min_length=1, max_length=256)] = "default_pool"

    @field_validator("schedule")
    @classmethod
    def _is_a_schedule(cls, value: str | None) -> str | None:
        if value is not None and value != CONTINUOUS and not croniter.is_valid(value):
            raise ValueError(
                f"{value!r} is no schedule; expected a cron expression such as '0 2 * * *',"
                " '@hourly', '@daily' or '@continuous'"
            )
        return value

    @model_validator(mode="after")
    def _is_one_run_where_airflow_allows_one(self) -> Self:
        asked = self.max_active_runs if "max_active_runs" in self.model_fields_set else 1
        if self.is_continuous and asked > 1:
            raise ValueError(
                "with schedule '@continuous' Airflow allows one run: max_active_runs: 1"
            )
        return self

    @property
    def is_continuous(self) -> bool:
        """Whether its runs follow one another without end."""
        return self.schedule == CONTINUOUS

    @property
    def runs_at_once(self) -> int:
        """How many of its runs may be under way."""
        return 1 if self.is_continuous else self.max_active_runs
