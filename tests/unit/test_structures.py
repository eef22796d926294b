"""A structure's declaration gives layout, copies, and readers of single fields."""

from __future__ import annotations

import struct

import pytest

from mqdlq.structures import MQDLH, MQGMO, MQMD, MQMDE, MQXQH, Packed
from tests.support.paths import ROOT


@pytest.mark.parametrize("package", ["constants", "structures"])
def test_both_distributions_have_one_declaration(package: str) -> None:
    link = ROOT / "embedded_mq/src/embedded_mq" / package

    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == ROOT / "plugins/mqdlq" / package


@pytest.mark.parametrize(
    ("kind", "beginning"),
    [(MQMD, b"MD  \2"), (MQDLH, b"DLH \1"), (MQXQH, b"XQH \1"), (MQGMO, b"GMO \4")],
)
def test_a_structure_begins_with_its_struc_id_and_version(
    kind: type[Packed], beginning: bytes
) -> None:
    made = kind.blank()
    made.struc_id, made.version = kind.struc_id, kind.version

    assert made.pack()[:8] == beginning.ljust(8, b"\0")


def test_a_measured_header_states_its_length() -> None:
    packed = MQMDE(format=b"MQSTR   ").pack()

    assert packed[:12] == b"MDE \2\0\0\0" + struct.pack("<i", 72)
    assert MQMDE.unpack(packed).struc_length == len(packed) == 72


def test_a_copy_of_a_structure_is_changed_without_the_original() -> None:
    md = MQMD.blank()
    md.expiry, md.version = 5, 1
    copy = md.copy()
    copy.expiry, copy.version = 7, 2

    assert (md.expiry, md.version) == (5, 1)
    assert MQMD.unpack(copy.pack()) == copy


def test_fields_side_by_side_are_read_without_the_others() -> None:
    md = MQMD.blank()
    md.report, md.msg_id, md.correl_id = 3, b"m" * 24, b"c" * 24
    packed = md.pack()

    assert MQMD.reader("report").unpack_from(packed) == (3,)
    assert MQMD.reader("msg_id", "correl_id").unpack_from(packed) == (b"m" * 24, b"c" * 24)
    assert packed[MQMD.slice_of("msg_id", "correl_id")] == b"m" * 24 + b"c" * 24
