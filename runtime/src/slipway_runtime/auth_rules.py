"""Authorization handlers of the project, `@auth.on` (agent server contract §7)."""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

# What a handler may return: nothing or True allows, False forbids, a mapping narrows to rows whose metadata match.
_OPERATORS = frozenset({"$eq", "$contains"})
# What a handler may change in the store's operations: where they read and write.
_PLACE = ("namespace", "key")


class User(Mapping[str, Any]):
    """The recognised user, readable as a mapping and by attributes, as handlers expect it."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Any:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_fields"][name]
        except KeyError:
            raise AttributeError(name) from None


class AuthRules:
    """The handlers of one Auth object; the most particular one that fits decides."""

    def __init__(self, auth: Any) -> None:
        self._handlers: Mapping[tuple[str, str], list[Callable[..., Any]]] = auth._handlers
        self._global: list[Callable[..., Any]] = auth._global_handlers
        self._context: Callable[..., Any] = auth.types.AuthContext

    def __bool__(self) -> bool:
        return bool(self._handlers or self._global)

    async def authorize(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """`{"allowed", "filter", "metadata", "place"}`, or `{"status", "detail"}` of the handler's HTTPException.

        `request`: user, resource, action, value. `metadata`: what the handler made of the value's metadata, null
        if it left them alone. `place`: what it made of namespace and key of the store, where it changed them.

        Raises:
            ValueError: the handler wants what nothing would apply: another operator, or another changed field.
        """
        handler = self._handler(request["resource"], request["action"])
        if handler is None:
            return {"allowed": True, "filter": None, "metadata": None, "place": None}
        user = User(request["user"])
        context = self._context(
            permissions=list(user.get("permissions") or []),
            user=user,
            resource=request["resource"],
            action=request["action"],
        )
        is_store = request["resource"] == "store"
        value = copy.deepcopy(request["value"])
        if is_store and value.get("namespace") is not None:
            value["namespace"] = tuple(value["namespace"])
        try:
            made = handler(ctx=context, value=value)
            result = await made if inspect.isawaitable(made) else made
        except AssertionError:
            return {"allowed": False, "filter": None, "metadata": None, "place": None}
        except Exception as error:
            status = getattr(error, "status_code", None)
            if not isinstance(status, int):
                raise
            return {"status": status, "detail": str(getattr(error, "detail", "") or "Forbidden")}
        return {
            "allowed": result is not False,
            "filter": _filter(result),
            "metadata": _changed_metadata(request["value"], value, _PLACE if is_store else ()),
            "place": _changed_place(request["value"], value) if is_store else None,
        }

    def _handler(self, resource: str, action: str) -> Callable[..., Any] | None:
        for key in ((resource, action), (resource, "*"), ("*", action), ("*", "*")):
            if self._handlers.get(key):
                return self._handlers[key][-1]
        return self._global[-1] if self._global else None


def _filter(result: Any) -> dict[str, Any] | None:
    if result is None or isinstance(result, bool):
        return None
    if not isinstance(result, Mapping):
        raise ValueError(f"an @auth.on handler returned {type(result).__name__}")
    for key, wanted in result.items():
        operators = set(wanted) if isinstance(wanted, Mapping) else set()
        if key.startswith("$") or any(name.startswith("$") for name in operators - _OPERATORS):
            raise ValueError(f"an @auth.on handler returned a filter on {key!r} that is not supported")
    return dict(result)


def _changed_metadata(
    before: Mapping[str, Any], after: Mapping[str, Any], others: tuple[str, ...]
) -> dict[str, Any] | None:
    changeable = ("metadata", *others)
    for key in before.keys() | after.keys():
        if key not in changeable and before.get(key) != after.get(key):
            raise ValueError(f"an @auth.on handler changed {key!r}; it may change {', '.join(changeable)}")
    made = after.get("metadata") or {}
    return dict(made) if made != (before.get("metadata") or {}) else None


def _changed_place(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    place: dict[str, Any] = {}
    namespace = after.get("namespace")
    if namespace is not None:
        if not isinstance(namespace, (list, tuple)) or not all(isinstance(label, str) for label in namespace):
            raise ValueError("an @auth.on handler made a namespace that is no sequence of texts")
        namespace = list(namespace)
    if namespace != before.get("namespace"):
        place["namespace"] = namespace or []
    if after.get("key") != before.get("key"):
        place["key"] = str(after.get("key"))
    return place
