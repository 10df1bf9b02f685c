from stack.realtime.fanout import NOTHING, parse_snapshot


def test_a_snapshot_sees_transactions_committed_before_it() -> None:
    snapshot = parse_snapshot("100:110:100,105")
    assert [xid for xid in range(98, 112) if snapshot.sees(xid)] == [98, 99, 101, 102, 103, 104, 106, 107, 108, 109]


def test_nothing_is_seen_before_the_first_snapshot() -> None:
    assert not any(NOTHING.sees(xid) for xid in (3, 1000, 2**31))


def test_ids_that_wrapped_around_are_compared_in_full() -> None:
    epoch = 3 << 32
    just_before = parse_snapshot(f"{epoch - 5}:{epoch - 2}:")
    assert just_before.sees(2**32 - 3)
    assert not just_before.sees(3)  # of the next epoch
    just_after = parse_snapshot(f"{epoch + 10}:{epoch + 12}:")
    assert just_after.sees(2**32 - 3)  # of the epoch before
    assert just_after.sees(11)
    assert not just_after.sees(12)
