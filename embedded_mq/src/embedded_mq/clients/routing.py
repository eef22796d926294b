"""Route a client's calls to the embedded queue manager or to IBM's client library.

MQCONN and MQCONNX are routed by the queue manager's name, other calls by their connection handle.
The client's own C extension, and IBM's library below it, is loaded at the first name that is not an
embedded queue manager.
"""

from collections.abc import Callable
from functools import wraps
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from embedded_mq.clients import calls
from embedded_mq.engine.failures import MQCC_FAILED, log
from embedded_mq.storage import directories

CONNECT_VERBS = ("MQCONN", "MQCONNX")
SETUP_VERBS = ("MQCBINIT", "MQLOGCF")  # calls without a connection, which both sides get

Call = Callable[..., Any]


def load_extension(name: str) -> ModuleType:
    """Load a client's C extension by its full name, without an entry in `sys.modules`.

    Raises ImportError if it is missing, or if IBM's client library is.
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
    """Let a replacement module pass on calls for queue managers that are not embedded.

    `load` loads the extension that the module replaces, or raises ImportError.
    """
    router = RealClientRouter(stand_in, load)
    for verb, call in list(vars(stand_in).items()):
        if verb in CONNECT_VERBS:
            setattr(stand_in, verb, router.route_connect(verb, call))
        elif verb in SETUP_VERBS:
            setattr(stand_in, verb, router.forward_setup(verb, call))
        elif verb.lower().startswith("mq") and callable(call):
            setattr(stand_in, verb, router.route_call(verb, call))


class RealClientRouter:
    """Passes calls for queue managers that are not embedded to one client's own extension."""

    def __init__(self, stand_in: ModuleType, load: Callable[[], ModuleType]) -> None:
        """Start without loading the extension."""
        self._stand_in = stand_in
        self._load = load
        self._extension: ModuleType | None = None
        self._handles: dict[int, int] = {}
        self._set_up: dict[str, tuple[Any, ...]] = {}

    def route_connect(self, verb: str, call: Call) -> Call:
        """Return an MQCONN or MQCONNX that accepts any queue manager's name."""

        @wraps(call)
        def connect(name: str | bytes, *arguments: Any) -> tuple[int, int, int]:
            wanted = calls.unpadded_name(name)
            extension = None if directories.exists(wanted) else self._load_extension(wanted)
            if extension is None:
                return call(name, *arguments)  # type: ignore[no-any-return]
            hconn, completion, reason = getattr(extension, verb)(name, *arguments)
            if completion == MQCC_FAILED:
                return hconn, completion, reason
            shown = calls.reserve_handle(hconn)
            self._handles[shown] = hconn
            return shown, completion, reason

        return connect

    def _load_extension(self, name: str) -> ModuleType | None:
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
            # The client reads the newest supported version of each structure from here.
            versions = getattr(extension, "__strucversions__", {})
            vars(self._stand_in).get("__strucversions__", {}).update(versions)
            for verb, arguments in self._set_up.items():
                getattr(extension, verb)(*arguments)
            self._extension = extension
        return self._extension

    def route_call(self, verb: str, call: Call) -> Call:
        """Return a call that is routed by its connection handle."""

        @wraps(call)
        def call_by_handle(hconn: int, *arguments: Any) -> Any:
            if hconn not in self._handles:
                return call(hconn, *arguments)
            answer = getattr(self._extension, verb)(self._handles[hconn], *arguments)
            if verb == "MQDISC" and answer[0] != MQCC_FAILED:
                del self._handles[hconn]
                calls.release_handle(hconn)
            return answer

        return call_by_handle

    def forward_setup(self, verb: str, call: Call) -> Call:
        """Return a call that is repeated on the extension as soon as that is loaded."""

        @wraps(call)
        def set_up(*arguments: Any) -> Any:
            self._set_up[verb] = arguments
            if self._extension is not None:
                getattr(self._extension, verb)(*arguments)
            return call(*arguments)

        return set_up
