"""Jobs that a restarted process no longer knows about."""

from tests.db.world import Organization, World


def test_a_claim_that_its_process_never_read_is_queued_again_after_a_restart(world: World, org: Organization) -> None:
    old = org.runner("r1", is_assigned_to_all_modules=True, capacity=2)
    unread = org.enqueue("a/b")
    old.claim_one()
    again = world.connect_runner(old.worker_id, "one", boot_id=old.boot_id)
    kept = org.enqueue("a/c")
    again.claim_one()
    again.call("worker_recover", p_running=[])
    assert (world.status(unread), world.status(kept)) == ("QUEUED", "CLAIMED")
