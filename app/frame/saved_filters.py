"""Saved filters of a list: names for addresses, kept by the browser for one organisation."""

import json
from typing import Any, TypedDict

import reflex as rx

from app.frame.session import AppState
from app.ui.dialog import act_button, alert, cancel, dialog_acts
from app.ui.icons import icon

MOST = 50
LONGEST_NAME = 60
HERE = "location.pathname.replace(/\\/$/, '') + location.search"


class Saved(TypedDict):
    """A filter under its name."""

    name: str
    address: str


def read(text: str) -> dict[str, list[Saved]]:
    """Read the filters that the browser kept, by organisation; anything else is none."""
    try:
        kept = json.loads(text)
    except ValueError:
        return {}
    found = kept if isinstance(kept, dict) else {}
    return {str(org): [one for one in rows if _is_saved(one)] for org, rows in found.items() if isinstance(rows, list)}


def _is_saved(one: Any) -> bool:
    is_named = isinstance(one, dict) and all(isinstance(one.get(key), str) for key in ("name", "address"))
    return bool(is_named and one["address"].startswith("/dashboard/") and one["name"])


class SavedFiltersState(AppState, rx.State):
    """The filters of the page that is open."""

    kept: str = rx.LocalStorage("{}", name="runyard-saved-filters")
    items: list[Saved] = []
    is_naming: bool = False
    _name: str = ""

    @rx.event
    async def load(self) -> None:
        """List the filters of this page."""
        self.is_naming = False
        path = self.router.url.path.rstrip("/")
        mine = read(self.kept).get(await self._org_id(), [])
        self._assign("items", [one for one in mine if one["address"].split("?")[0] == path])

    @rx.event
    def name_it(self, is_naming: bool) -> None:
        """Open or close the dialog that asks for a name."""
        self.is_naming = is_naming

    @rx.event
    def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        """Keep the address under a name; the browser knows the address as it is now."""
        self._name = str(form.get("name") or "").strip()[:LONGEST_NAME]
        return rx.call_script(HERE, callback=SavedFiltersState.keep) if self._name else None

    @rx.event
    async def keep(self, address: str) -> rx.event.EventSpec:
        """Keep this address; the same name again replaces the older one."""
        self.is_naming = False
        if "?" not in address or not address.startswith("/dashboard/"):
            return rx.toast.info("Nothing is filtered", description="Choose a filter or search, then save it.")
        saved: Saved = {"name": self._name, "address": address}
        await self._change([one for one in self.items if one["name"] != self._name] + [saved])
        return rx.toast.success(f"Saved as {self._name}", description="Only this browser has it.")

    @rx.event
    def show(self, address: str) -> rx.event.EventSpec | None:
        """Show what a filter selects."""
        known = any(one["address"] == address for one in self.items)
        return rx.call_script(f"location.assign({json.dumps(address)})") if known else None

    @rx.event
    async def remove(self, name: str) -> None:
        """Forget a filter."""
        await self._change([one for one in self.items if one["name"] != name])

    async def _change(self, items: list[Saved]) -> None:
        org, path, kept = await self._org_id(), self.router.url.path.rstrip("/"), read(self.kept)
        others = [one for one in kept.get(org, []) if one["address"].split("?")[0] != path]
        self.items = sorted(items, key=lambda one: one["name"].casefold())[:MOST]
        self.kept = json.dumps({**kept, org: others + self.items})


def _item(saved: rx.Var[Saved]) -> rx.Component:
    return rx.dropdown_menu.sub(
        rx.dropdown_menu.sub_trigger(saved["name"]),
        rx.dropdown_menu.sub_content(
            rx.dropdown_menu.item("Show", on_select=SavedFiltersState.show(saved["address"].to(str))),
            rx.dropdown_menu.item(
                "Remove", on_select=SavedFiltersState.remove(saved["name"].to(str)), color_scheme="red"
            ),
        ),
    )


def saved_filters() -> rx.Component:
    """A menu of the page's saved filters, and a way to save what is shown now."""
    state = SavedFiltersState
    button = rx.button(icon("bookmark"), "Saved", variant="surface", color_scheme="gray", class_name="hide-s")
    menu = rx.dropdown_menu.root(
        rx.dropdown_menu.trigger(button, custom_attrs={"data-testid": "saved-filters"}),
        rx.dropdown_menu.content(
            rx.foreach(state.items, _item),
            rx.cond(state.items.length() > 0, rx.dropdown_menu.separator(), rx.fragment()),
            rx.dropdown_menu.item(icon("plus"), "Save this filter", on_select=state.name_it(True)),
        ),
    )
    form = rx.form(
        rx.el.div(
            rx.el.label("Name", html_for="saved-filter-name"),
            rx.input(
                id="saved-filter-name", name="name", required=True, max_length=LONGEST_NAME, auto_focus=True,
                placeholder="Failed applies",
            ),
            class_name="ry-f ry-dialog-field",
        ),
        dialog_acts(cancel(state.name_it(False)), act_button("Save", type="submit")),
        on_submit=state.save,
    )  # fmt: skip
    words = "This browser keeps it. To share a filter, copy the address of the page."
    dialog = alert("Save this filter", words, form, is_open=state.is_naming, on_escape=state.name_it(False))
    return rx.fragment(menu, dialog)
