"""The streaming protocol over a WebSocket: commands in; answers and events of all subscriptions out (§1.2)."""

import asyncio
import contextlib
from typing import Any, cast
from uuid import UUID, uuid4

import orjson
from fastapi import APIRouter, Request, WebSocket
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from api.agent_server.deployment import deployment_of
from api.agent_server.streams.command_errors import sentence_of
from api.agent_server.streams.commands import Commander, failure, success
from api.agent_server.streams.protocol_schemas import Command, Resubscribe, Subscribe, Unsubscribe
from api.agent_server.streams.protocol_stream import ResumeGapError, selected_events, starting_point
from api.authentication import credentials_of
from api.errors import ApiError
from api.services import Services
from storage.served import ServedDeployment

router = APIRouter(prefix="/threads/{thread_id}")

MAX_SUBSCRIPTIONS = 100
_STATUS_CODES = 4000


@router.websocket("/stream")
@router.websocket("/stream/events")
async def connect(websocket: WebSocket, thread_id: str) -> None:
    """One connection for one thread; a key in its headers as for every other route.

    A refusal is told after the handshake, by a close code: 4000 and the status that an HTTP route would answer.
    """
    await websocket.accept()
    services: Services = websocket.app.state.services
    try:
        deployment = await _deployment_of(websocket, services)
        thread = UUID(thread_id)
    except ValueError:
        await websocket.close(_STATUS_CODES + 422, "Invalid thread ID: must be a UUID")
        return
    except ApiError as error:
        await websocket.close(_STATUS_CODES + error.status, error.detail[:100])
        return
    await _Connection(websocket, services, deployment, thread).serve()


async def _deployment_of(websocket: WebSocket, services: Services) -> ServedDeployment:
    return await deployment_of(cast(Request, websocket), credentials_of(websocket), services)


class _Connection:
    """Commands are executed one after another; each subscription sends as fast as the client takes."""

    def __init__(
        self, websocket: WebSocket, services: Services, deployment: ServedDeployment, thread_id: UUID
    ) -> None:
        self._websocket = websocket
        self._services = services
        self._deployment = deployment
        self._thread_id = thread_id
        self._commander = Commander(services, deployment, thread_id)
        self._subscriptions: dict[str, asyncio.Task[None]] = {}
        self._sending = asyncio.Lock()

    async def serve(self) -> None:
        """Until the client goes."""
        try:
            while True:
                answer = await self._answer(await self._websocket.receive_text())
                await self._send(orjson.dumps(answer))
        except (WebSocketDisconnect, RuntimeError, KeyError):
            return
        finally:
            for task in self._subscriptions.values():
                task.cancel()

    async def _answer(self, text: str) -> dict[str, Any]:
        try:
            command = Command.model_validate(orjson.loads(text))
        except orjson.JSONDecodeError as error:
            return failure(None, "invalid_argument", f"Invalid JSON: {error}")
        except ValidationError as error:
            return failure(None, "invalid_argument", sentence_of(error))
        try:
            match command.method:
                case "subscription.subscribe":
                    return await self._subscribe(command.id, Subscribe.model_validate(command.params))
                case "subscription.reconnect":
                    return await self._subscribe(command.id, Resubscribe.model_validate(command.params))
                case "subscription.unsubscribe":
                    return self._unsubscribe(command.id, Unsubscribe.model_validate(command.params))
            if self._deployment.revision_id is None:
                return failure(command.id, "not_supported", "The deployment has no deployed revision yet.")
            return await self._commander.execute(command)
        except ValidationError as error:
            return failure(command.id, "invalid_argument", sentence_of(error))
        except ResumeGapError as gap:
            return gap.answer(command.id)
        except ApiError as error:
            return failure(command.id, "unknown_error", error.detail)

    async def _subscribe(self, command_id: int, wanted: Subscribe) -> dict[str, Any]:
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            return failure(
                command_id, "invalid_argument", f"A connection may have {MAX_SUBSCRIPTIONS} subscriptions."
            )
        after = await starting_point(self._services, self._deployment.scope, self._thread_id, wanted.since)
        given = wanted.subscription_id if isinstance(wanted, Resubscribe) else None
        subscription_id = given or str(uuid4())
        if old := self._subscriptions.pop(subscription_id, None):
            old.cancel()
        self._subscriptions[subscription_id] = asyncio.create_task(self._deliver(wanted, after))
        return success(command_id, {"subscription_id": subscription_id}, after)

    def _unsubscribe(self, command_id: int, unwanted: Unsubscribe) -> dict[str, Any]:
        task = self._subscriptions.pop(unwanted.subscription_id, None)
        if task is None:
            return failure(command_id, "no_such_subscription", f"No subscription {unwanted.subscription_id}.")
        task.cancel()
        return success(command_id, {})

    async def _deliver(self, wanted: Subscribe, after: int) -> None:
        scope = self._deployment.scope
        events = selected_events(self._services, scope, self._thread_id, wanted.selection, after)
        try:
            async with contextlib.aclosing(events):
                async for page in events:
                    for _, text in page:
                        await self._send(text)
        except ResumeGapError as gap:
            await self._send(orjson.dumps(gap.answer()))
        except (WebSocketDisconnect, RuntimeError):
            return

    async def _send(self, text: bytes) -> None:
        async with self._sending:
            await self._websocket.send_text(text.decode())
