"""How creates and patches of a run become one row, in whatever order they arrive (trace contract §5.4).

Each field remembers who set it, by rank: a guess of ours, a create, a create that already knows the end, a patch.
A value replaces another of the same or a lower rank, so that a create that arrives late, or again, does not undo a
patch. Nulls never replace anything.
"""

from typing import Any

from storage.traces.changes import DERIVED, FIELDS, RunChange

_GUESS, _CREATE, _ENDED_CREATE, _PATCH = range(4)
_SHIFT = {name: 2 * place for place, name in enumerate(FIELDS)}
_EMPTY = {"{}", "[]"}


class MergedRun:
    """The fields of a run as far as they are known, and their ranks as stored in `field_ranks`."""

    __slots__ = ("attachments", "changed", "ranks", "values")

    def __init__(self, values: dict[str, Any] | None = None, ranks: int = 0) -> None:
        self.values = values if values is not None else {}
        self.ranks = ranks
        self.changed: set[str] = set()
        self.attachments: dict[str, dict[str, Any]] = {}

    def apply(self, change: RunChange) -> None:
        """Take over what `change` may set; the names of fields that were set are added to `changed`."""
        rank = _PATCH if not change.is_create else _ENDED_CREATE if change.ended else _CREATE
        given = change.values
        for name in FIELDS:
            value = given.get(name)
            if value is None:
                continue
            mine = rank
            if name in change.provisional or (change.is_create and _is_empty(value)):
                mine = _GUESS
            shift = _SHIFT[name]
            if self.values.get(name) is not None and (self.ranks >> shift) & 3 > mine:
                continue
            self.ranks = self.ranks & ~(3 << shift) | mine << shift
            self._set(name, value)
            for derived in DERIVED.get(name, ()):
                self._set(derived, given.get(derived))
        for attachment in change.attachments:
            self.attachments[attachment.name] = {
                "key": attachment.key,
                "mime_type": attachment.mime_type,
                "size": len(attachment.data),
            }

    def guess(self, name: str, value: Any) -> None:
        """Fill a field that nobody sent; whatever a client says later replaces it."""
        if name in _SHIFT:
            self.ranks &= ~(3 << _SHIFT[name])
        self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        self.values[name] = value
        self.changed.add(name)


def is_client_given(ranks: int, name: str) -> bool:
    """Whether a stored field was said by a client, and not guessed."""
    return (ranks >> _SHIFT[name]) & 3 > _GUESS


def _is_empty(value: Any) -> bool:
    """SDKs post `outputs: {}`, `events: []` and `tags: []` when a run starts, which says nothing."""
    return value == [] or (isinstance(value, str) and value in _EMPTY)
