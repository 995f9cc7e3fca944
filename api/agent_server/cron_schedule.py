"""Cron expressions as sets of calendar fields (contract §3.6): five fields, or six, of which the sixth is seconds."""

import re
from dataclasses import dataclass, replace
from zoneinfo import available_timezones

from croniter import CroniterBadDateError, croniter
from croniter.croniter import CroniterError

from api.errors import InvalidError

MAX_SCHEDULE_LENGTH = 512
# `L`, `W`, `R` and `H` would be understood differently, or not at all, by the scheduler.
_UNSUPPORTED = re.compile(r"(?<![A-Za-z])[LWRH](?![A-Za-z])|\d[LW]|L\d", re.IGNORECASE)
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True)
class Calendar:
    """Times that match every field; days of the week count from Sunday = 0."""

    second: tuple[int, ...]
    minute: tuple[int, ...]
    hour: tuple[int, ...]
    day_of_month: tuple[int, ...]
    month: tuple[int, ...]
    day_of_week: tuple[int, ...]


_ANY = Calendar(
    tuple(range(60)),
    tuple(range(60)),
    tuple(range(24)),
    tuple(range(1, 32)),
    tuple(range(1, 13)),
    tuple(range(7)),
)


def parse_schedule(text: str) -> list[Calendar]:
    """The calendars whose union is the schedule: where both kinds of days are restricted, either may match.

    Raises:
        InvalidError: the text is no cron expression, uses an extension that is not supported, or never matches.
    """
    expression = _ALIASES.get(text.strip().lower(), text.strip())
    if len(text) > MAX_SCHEDULE_LENGTH or len(expression.split()) not in (5, 6):
        raise InvalidError(
            "schedule: must be a cron expression of 5 fields, or of 6 with seconds as the last."
        )
    if _UNSUPPORTED.search(expression):
        raise InvalidError(f"schedule: {text!r} uses one of L, W, R and H, which are not supported.")
    try:
        fields, nth_weekdays = croniter.expand(expression)
        croniter(expression).get_next()
    except CroniterBadDateError:
        raise InvalidError(f"schedule: {text!r} never comes to pass.") from None
    except (CroniterError, ValueError) as error:
        raise InvalidError(f"schedule: {text!r} is not a cron expression: {error}") from None
    minute, hour, day, month, weekday = (_values(field) for field in fields[:5])
    second = _values(fields[5]) if len(fields) > 5 else (0,)
    base = Calendar(
        second if second is not None else _ANY.second,
        minute if minute is not None else _ANY.minute,
        hour if hour is not None else _ANY.hour,
        _ANY.day_of_month,
        month if month is not None else _ANY.month,
        _ANY.day_of_week,
    )
    by_day = [replace(base, day_of_month=day)] if day is not None else []
    by_weekday = _weekdays(base, weekday, nth_weekdays) if weekday is not None else []
    return [*by_day, *by_weekday] or [base]


def check_timezone(name: str) -> str:
    """The name of an IANA time zone.

    Raises:
        InvalidError: there is none of that name.
    """
    if name not in available_timezones():
        raise InvalidError(f"timezone: {name!r} is not an IANA time zone.")
    return name


def _values(field: list[int | str]) -> tuple[int, ...] | None:
    """None for `*`."""
    return None if field == ["*"] else tuple(sorted(int(value) for value in field))


def _weekdays(base: Calendar, weekdays: tuple[int, ...], nth: dict[int, set[int]]) -> list[Calendar]:
    """`5#2`, the second Friday, is the Friday among the days 8 to 14."""
    if not nth:
        return [replace(base, day_of_week=weekdays)]
    return [
        replace(base, day_of_week=(weekday,), day_of_month=tuple(range(7 * n - 6, min(7 * n, 31) + 1)))
        for weekday, places in nth.items()
        for n in sorted(places)
    ]
