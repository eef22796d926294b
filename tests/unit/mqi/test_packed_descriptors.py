"""The packed structures behave like the library's own structures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import embedded_mq
from mqdlq.mqi import client
from mqdlq.mqi.packed_descriptors import PackedStructures, packed_structures

KINDS = ("MD", "GMO", "PMO", "OD")


@pytest.fixture(name="module", params=client.CLIENT_NAMES)
def _module(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded_mq.install()
    return client.import_client(request.param).module


@pytest.fixture(name="structures")
def _structures(module: Any) -> PackedStructures:
    return packed_structures(module)


def fields_of(structure: Any) -> dict[str, Any]:
    kinds = vars(type(structure)).items()
    return {name: getattr(structure, name) for name, kind in kinds if isinstance(kind, property)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_structure_has_the_librarys_defaults(
    module: Any, structures: PackedStructures, kind: str
) -> None:
    packed, own = getattr(structures, kind)(), getattr(module, kind)()
    own.Version = packed.Version

    assert isinstance(packed, getattr(module, kind))
    assert packed.pack() == own.pack()


@pytest.mark.parametrize("kind", KINDS)
def test_each_packed_field_has_the_librarys_offset(
    module: Any, structures: PackedStructures, kind: str
) -> None:
    """Each is set to a distinct value, and the library packs and unpacks the same bytes."""
    packed, own = getattr(structures, kind)(), getattr(module, kind)()
    known = set(own.get())
    for number, (name, value) in enumerate(fields_of(packed).items()):
        assert name in known
        fits = number if isinstance(value, int) else bytes([64 + number]) * len(value)
        setattr(own, name, fits)
        packed[name] = fits

    assert packed.pack() == own.pack()
    again = getattr(structures, kind)().unpack(own.pack())
    assert fields_of(again) == {name: own[name] for name in fields_of(packed)}


def test_a_packed_structure_accepts_only_known_field_names(structures: PackedStructures) -> None:
    assert structures.MD(Format=b"MQSTR   ", Priority=7).Priority == 7
    with pytest.raises(AttributeError, match="Formt"):
        structures.MD(Formt=b"MQSTR   ")


def test_the_versions_of_packed_structures_include_every_field(
    structures: PackedStructures,
) -> None:
    versions = [kind().Version for kind in (structures.MD, structures.GMO, structures.PMO)]
    assert versions == [2, 4, 3]


def test_the_repr_of_a_packed_structure_shows_no_content(structures: PackedStructures) -> None:
    descriptor = structures.MD(UserIdentifier=b"alice")
    assert str(descriptor) == repr(descriptor) == "<PackedMD, 364 bytes>"


def test_the_unmodified_library_puts_and_gets_with_packed_structures(
    module: Any, structures: PackedStructures
) -> None:
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)")
    constants = module.CMQC
    connection = module.connect(b"QM1")
    target = structures.OD(ObjectName=b"A")
    pmo = structures.PMO(Options=constants.MQPMO_NO_SYNCPOINT)
    put = structures.MD(Format=constants.MQFMT_STRING, CorrelId=b"c" * 24)
    connection.put1(target, b"body", put, pmo)
    queue = module.Queue(connection, b"A", constants.MQOO_INPUT_SHARED)
    got = structures.MD()

    body = queue.get(100, got, structures.GMO(Options=constants.MQGMO_NO_SYNCPOINT))

    assert bytes(body) == b"body"
    assert got.CorrelId == b"c" * 24
    assert got.MsgId == put.MsgId != bytes(24)
    assert pmo.ResolvedQName == b"A".ljust(48)
    queue.close()
    connection.disconnect()
