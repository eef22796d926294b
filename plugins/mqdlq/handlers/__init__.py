"""Parse and validate handlers' YAML files, and convert rules tables to and from YAML."""

from mqdlq.handlers.configuration import (
    Handler,
    check_handler,
    handler_names,
    is_handler,
    load_handler,
    load_handlers,
)
from mqdlq.handlers.conversion import to_table, to_yaml
from mqdlq.handlers.tables import check
