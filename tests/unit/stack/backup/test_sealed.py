import io
import os

import pytest

from stack.backup.sealed import PIECE, TAG, WrongPassphrase, read_facts, read_sealed, write_sealed
from stack.errors import Damaged

PASSPHRASE = "correct horse battery"


def sealed(content: bytes) -> bytes:
    file = io.BytesIO()
    write_sealed(file, PASSPHRASE, {"created_at": "now"}, [content])
    return file.getvalue()


def opened(data: bytes, passphrase: str = PASSPHRASE) -> bytes:
    file = io.BytesIO(data)
    header, facts = read_facts(file)
    return b"".join(read_sealed(file, passphrase, header, facts))


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_content_of_every_size_is_restored(size: int) -> None:
    content = os.urandom(size)
    assert opened(sealed(content)) == content


def test_a_wrong_passphrase_is_not_called_damage() -> None:
    with pytest.raises(WrongPassphrase):
        opened(sealed(b"x"), "incorrect")


def test_pieces_can_be_neither_left_out_nor_swapped_nor_repeated() -> None:
    whole, size = sealed(os.urandom(3 * PIECE)), PIECE + TAG
    begin = len(whole) - 3 * size - TAG
    head, first, second, third, last = (
        whole[:begin],
        *(whole[begin + i * size : begin + (i + 1) * size] for i in range(4)),
    )
    assert opened(head + first + second + third + last)
    for pieces in ((first, second, third), (second, first, third, last), (first, first, second, third, last), ()):
        with pytest.raises(Damaged):
            opened(head + b"".join(pieces))


def test_a_changed_header_is_noticed() -> None:
    with pytest.raises(Damaged):
        opened(sealed(b"x").replace(b"now", b"old", 1))
    with pytest.raises(Damaged):
        opened(b"PK\x03\x04")
