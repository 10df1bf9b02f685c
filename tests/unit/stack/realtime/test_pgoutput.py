import struct

from stack.realtime.stream import EPOCH_MICROSECONDS, Begin, Field, Missing, Relation, RowChange, decode

OID = struct.pack(">I", 7)


def row(*values: str | bytes | None) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if isinstance(value, str):
            parts.append(b"t" + struct.pack(">I", len(value.encode())) + value.encode())
        else:
            parts.append(value or b"n")
    return b"".join(parts)


def test_a_transaction_has_its_number_and_time() -> None:
    assert decode(b"B" + struct.pack(">QqI", 1, 1_000_000, 42)) == Begin(42, EPOCH_MICROSECONDS + 1_000_000)
    assert decode(b"C" + bytes(25)) is None


def test_a_relation_has_its_columns() -> None:
    columns = b"\x01id\0" + struct.pack(">Ii", 23, -1) + b"\x00n\xc3\xa4me\0" + struct.pack(">Ii", 25, -1)
    message = b"R" + OID + b"public\0t\0d" + struct.pack(">H", 2) + columns
    assert decode(message) == Relation(7, "public", "t", (Field("id", True), Field("näme", False)))


def test_rows() -> None:
    assert decode(b"I" + OID + b"N" + row("1", None, "ü")) == RowChange("INSERT", 7, ("1", None, "ü"), None, False)
    assert decode(b"U" + OID + b"N" + row("1", b"u")) == RowChange("UPDATE", 7, ("1", Missing.UNCHANGED), None, False)
    with_key = decode(b"U" + OID + b"K" + row("1", None) + b"N" + row("2", "x"))
    assert with_key == RowChange("UPDATE", 7, ("2", "x"), ("1", None), True)
    with_row = decode(b"U" + OID + b"O" + row("1", "w") + b"N" + row("1", "x"))
    assert with_row == RowChange("UPDATE", 7, ("1", "x"), ("1", "w"), False)
    assert decode(b"D" + OID + b"K" + row("1", None)) == RowChange("DELETE", 7, None, ("1", None), True)


def test_other_messages_are_ignored() -> None:
    assert [decode(kind + bytes(20)) for kind in (b"T", b"O", b"Y", b"M")] == [None] * 4
