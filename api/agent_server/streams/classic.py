"""Frames of a classic stream from rows of the record (agent server contract §4)."""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

import orjson
from langchain_core.messages import AIMessageChunk
from psycopg.rows import DictRow

ENDED = "ended"
_PLAIN_MODES = frozenset({"values", "updates", "custom", "tasks", "checkpoints", "debug", "events"})


class ClassicFrames:
    """Translates one run's rows in order. Only the old mode `messages` makes it remember anything."""

    def __init__(self, modes: Collection[str], subgraphs: bool) -> None:
        self._modes = frozenset(modes)
        self._subgraphs = subgraphs
        self._whole = WholeMessages()

    @property
    def needs_beginning(self) -> bool:
        """Whether rows before the reader's cursor must be seen to translate those after it."""
        return "messages" in self._modes

    def of(self, row: DictRow, links: Mapping[str, str] | None = None) -> bytes:
        """The row's frames; the last carries the id, so that a reader who lost the others gets all again.

        `links`: where readers may rate a run that ends with this row; they come before its end.
        """
        frames = self._frames(row, links or {})
        if not frames:
            return b""
        return b"".join(
            [frame(event, data) for event, data in frames[:-1]] + [frame(*frames[-1], seq=row["seq"])]
        )

    def _frames(self, row: DictRow, links: Mapping[str, str]) -> list[tuple[str, bytes]]:
        event, data = row["event"], row["data"].encode()
        if event in _PLAIN_MODES:
            if event in self._modes and self._is_shown(row):
                return [(_suffixed(event, row["namespace"]), data)]
            return []
        if event == "messages":
            return self._message_frames(row)
        if event == "running":
            attempt = orjson.loads(data)["attempt"]
            return [("metadata", orjson.dumps({"run_id": str(row["run_id"]), "attempt": attempt}))]
        if event == ENDED:
            rating = [("feedback", orjson.dumps(dict(links)))] if links else []
            return [*rating, *end_frames(orjson.loads(data))]
        return []

    def _message_frames(self, row: DictRow) -> list[tuple[str, bytes]]:
        if self._modes.isdisjoint(("messages", "messages-tuple")) or not self._is_shown(row):
            return []
        data = orjson.loads(row["data"])
        if "chunk" not in data:
            return []
        frames: list[tuple[str, bytes]] = []
        if "messages-tuple" in self._modes:
            pair = orjson.dumps([data["chunk"], data["metadata"]])
            frames.append((_suffixed("messages", row["namespace"]), pair))
        if "messages" in self._modes:
            frames += self._whole.frames(data["chunk"], data["metadata"])
        return frames

    def _is_shown(self, row: DictRow) -> bool:
        return self._subgraphs or not row["namespace"]


class WholeMessages:
    """The old mode `messages`: every chunk is sent as the whole message so far."""

    def __init__(self) -> None:
        self._partial: dict[str, AIMessageChunk] = {}

    def frames(self, chunk: dict[str, Any], metadata: dict[str, Any]) -> list[tuple[str, bytes]]:
        message_id = str(chunk.get("id"))
        if chunk.get("type") != "AIMessageChunk":
            announced = [] if message_id in self._partial else [_announced(message_id, metadata)]
            return [*announced, ("messages/complete", orjson.dumps([chunk]))]
        piece = AIMessageChunk(
            **{key: value for key, value in chunk.items() if key in AIMessageChunk.model_fields}
        )
        known = self._partial.get(message_id)
        whole = piece if known is None else known + piece
        self._partial[message_id] = whole
        announced = [] if known is not None else [_announced(message_id, metadata)]
        shown = {**whole.model_dump(exclude={"chunk_position"}), "type": "ai"}
        return [*announced, ("messages/partial", orjson.dumps([shown]))]


def frame(event: str, data: bytes, seq: int | None = None) -> bytes:
    """One server-sent event: event, data, then the id."""
    identity = b"id: %d\n" % seq if seq is not None else b""
    return b"event: %s\ndata: %s\n%s\n" % (event.encode(), data, identity)


def end_frames(end: dict[str, Any]) -> list[tuple[str, bytes]]:
    """How a run ended: its status, after its error if it has one."""
    frames = [("error", orjson.dumps(end["error"]))] if end.get("error") else []
    return [*frames, ("end", orjson.dumps({"status": end["status"]}))]


def metadata_frame(run_id: UUID, attempt: int) -> bytes:
    return frame("metadata", orjson.dumps({"run_id": str(run_id), "attempt": attempt}))


def _announced(message_id: str, metadata: dict[str, Any]) -> tuple[str, bytes]:
    return ("messages/metadata", orjson.dumps({message_id: {"metadata": metadata}}))


def _suffixed(mode: str, namespace: list[str]) -> str:
    return "|".join([mode, *namespace]) if namespace else mode
