"""A module by the path that somebody typed."""

from app.frame.session import AppState
from app.project.errors import NotThere
from app.project.models import Filter, Query


async def find_module(state: AppState, path: str) -> str:
    """Return the id of the organisation's module at a path; refuse a path without one."""
    mine = (Filter("org_id", "eq", await state._org_id()), Filter("deleted_at", "is", "null"))
    query = Query(columns="id", filters=(*mine, Filter("path", "eq", path)), limit=1)
    rows = (await state._select("modules", query)).rows
    if not rows:
        raise NotThere(f'There is no module "{path}".', "Write its whole path, as the tree shows it.")
    return str(rows[0]["id"])
