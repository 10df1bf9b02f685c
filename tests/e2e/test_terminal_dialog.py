"""Module → ⋯ → Use from your terminal: the blocks that tofu and terraform need, to copy."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.test_work_pages import make_module, owner
from wire.cloud_block import cloud_block, host_block, host_of

__all__ = ["owner"]


def test_dialog_has_the_blocks_of_the_open_module_to_copy(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    for name in ("queue", "other"):
        make_module(product, owner, f"from-terminal/{name}")
    [(slug,)] = product.sql("select slug from public.organizations where id = %s", owner.org_id)
    page = open_as(owner)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog = page.get_by_role("dialog")
    for name in ("queue", "other"):
        page.goto(f"/dashboard/modules?path=from-terminal/{name}")
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        page.get_by_role("button", name="Module actions").click()
        page.get_by_role("menuitem", name="Use from your terminal").click()
        shown = {
            "Copy the host": host_block(product.stack.url),
            "Copy the sign-in": f"tofu login {host_of(product.stack.url)}",
            "Copy the block": cloud_block(product.stack.url, slug, f"from-terminal/{name}"),
        }
        for label, text in shown.items():
            dialog.get_by_role("button", name=label).click()
            copied = page.evaluate("navigator.clipboard.readText()")
            assert copied.strip() == text.strip()
            assert text.strip() in [each.strip() for each in dialog.locator("pre").all_inner_texts()]
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)
