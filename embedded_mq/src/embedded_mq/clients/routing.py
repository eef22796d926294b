"""Queue managers by name: a client's calls in, to the embedded queue manager or to IBM's library.

MQCONN and MQCONNX go by the name, every other call by the handle those gave. The client's own C
extension, and IBM's library below it, is loaded when the first name is met that is not embedded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from embedded_mq.clients import calls
from embedded_mq.engine.failures import MQCC_FAILED, log
from embedded_mq.storage import directories

CONNECT = ("MQCONN", "MQCONNX")
SET_UP = ("MQCBINIT", "MQLOGCF")  # these two know no connection; both sides get them

Call = Callable[..., Any]


def load_extension(name: str) -> ModuleType:
    """Load a client's C extension by its full name, without a trace in `sys.modules`.

    Raises ImportError where there is none, or where IBM's client library is missing.
    """
    client, _, extension = name.partition(".")
    package = find_spec(client)
    for directory in (package and package.submodule_search_locations) or ():
        finder = FileFinder(directory, (ExtensionFileLoader, EXTENSION_SUFFIXES))
        found = finder.find_spec(extension)
        if found is not None and found.loader is not None:
            module = module_from_spec(found)
            found.loader.exec_module(module)
            return module
    raise ImportError(f"{client} is installed without its C extension {extension}")


def route(stand_in: ModuleType, load: Callable[[], ModuleType]) -> None:
    """Let a stand-in hand on what concerns queue managers that are not embedded.

    `load` loads the extension it stands in for, or raises ImportError.
    """
    elsewhere = Elsewhere(stand_in, load)
    for verb, call in list(vars(stand_in).items()):
        if verb in CONNECT:
            setattr(stand_in, verb, elsewhere.connecting(verb, call))
        elif verb in SET_UP:
            setattr(stand_in, verb, elsewhere.setting_up(verb, call))
        elif verb.lower().startswith("mq") and callable(call):
            setattr(stand_in, verb, elsewhere.calling(verb, call))


class Elsewhere:
    """The queue managers that are not embedded, by way of one client's own extension."""

    def __init__(self, stand_in: ModuleType, load: Callable[[], ModuleType]) -> None:
        """Nothing is loaded yet."""
        self._stand_in = stand_in
        self._load = load
        self._extension: ModuleType | None = None
        self._handles: dict[int, int] = {}
        self._set_up: dict[str, tuple[Any, ...]] = {}

    def connecting(self, verb: str, call: Call) -> Call:
        """Return MQCONN or MQCONNX for any name."""

        @wraps(call)
        def connect(name: str | bytes, *arguments: Any) -> tuple[int, int, int]:
            wanted = calls.name_of(name)
            extension = None if directories.exists(wanted) else self._loaded(wanted)
            if extension is None:
                return call(name, *arguments)  # type: ignore[no-any-return]
            hconn, completion, reason = getattr(extension, verb)(name, *arguments)
            if completion == MQCC_FAILED:
                return hconn, completion, reason
            shown = calls.reserve(hconn)
            self._handles[shown] = hconn
            return shown, completion, reason

        return connect

    def _loaded(self, name: str) -> ModuleType | None:
        if self._extension is None:
            try:
                extension = self._load()
            except ImportError as error:
                log.warning(
                    "queue manager %r is not embedded (embedded: %s), and IBM's MQ client library,"
                    " which reaches all others, could not be loaded: %s",
                    name,
                    ", ".join(directories.names()) or "none",
                    error,
                )
                return None
            # The client asks here how new a structure it may build.
            versions = getattr(extension, "__strucversions__", {})
            vars(self._stand_in).get("__strucversions__", {}).update(versions)
            for verb, arguments in self._set_up.items():
                getattr(extension, verb)(*arguments)
            self._extension = extension
        return self._extension

    def calling(self, verb: str, call: Call) -> Call:
        """Return a call that goes where its handle comes from."""

        @wraps(call)
        def go(hconn: int, *arguments: Any) -> Any:
            if hconn not in self._handles:
                return call(hconn, *arguments)
            answer = getattr(self._extension, verb)(self._handles[hconn], *arguments)
            if verb == "MQDISC" and answer[0] != MQCC_FAILED:
                del self._handles[hconn]
                calls.release(hconn)
            return answer

        return go

    def setting_up(self, verb: str, call: Call) -> Call:
        """Return a call that is kept for the extension until that is loaded."""

        @wraps(call)
        def set_up(*arguments: Any) -> Any:
            self._set_up[verb] = arguments
            if self._extension is not None:
                getattr(self._extension, verb)(*arguments)
            return call(*arguments)

        return set_up
