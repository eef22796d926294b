"""Convert between Python text and the character fields of the MQI's structures."""

from functools import cache, lru_cache


@lru_cache(4096)
def text(field: bytes) -> str:
    """Read a character field: up to the first NUL, trailing blanks removed."""
    return field.partition(b"\0")[0].decode("latin-1").rstrip(" ")


def blank_padded(value: str | bytes, length: int) -> bytes:
    """Write a character field as MQ returns it: cut or padded with blanks to its length."""
    data = value if isinstance(value, bytes) else value.encode("latin-1")
    return data[:length].ljust(length)


def normalised(field: bytes) -> bytes:
    """Turn the first NUL and all after it into blanks, as MQ does with text on input."""
    kept, nul, _ = field.partition(b"\0")
    return kept.ljust(len(field)) if nul else field


@cache
def object_name(value: str) -> bytes:
    return blank_padded(value, 48)
