"""The dashboard: Reflex; the browser's only server.

How it is built
---------------
Rooms, from the bottom to the top; a room imports only what is below it (contracts in pyproject.toml):

- `project/` knows the project and imports no Reflex. `client.py` is the only module that talks HTTP,
  `realtime_client.py` the only one that talks Realtime. `authorized_client.py` calls the project in a session's name
  (`authorized.rpc(session, name, args)`, `authorized.select(session, table, Query(...))`) and keeps its token fresh.
  `live_queries.py` has the questions of the pages (`list_runners` with a filter), answered once for all tabs: `asker.py`
  sends them, `store.py` keeps the answers, `feed.py` keeps them true, `hub.py` knows which tab shows what.
  `runtime.runtime()` reaches them from a state. Errors are named after the reaction: `SignedOut`, `Unreachable`, `Refused`
  (has the database's message and hint), `NotThere`.
- `http/`: what all routes without the websocket share: cookies, guard, headers, origins, CSV, and `api.py`, which
  gathers the routes of the features.
- `ui/`: the kit. `elements.py`: `ago(at)`, `since(at, until)`, `date(at)`, `clock_time(at)` tick in the browser.
  `badges.py`: `job_badge(status)`, `runner_badge(status)`, `tag(text)`. `feedback.py`: `empty`, `failed`, `skeleton_rows`.
  `dialog.py`, `sheet.py`, `panel.py`, `table.py`, `form/`, `copy.py`; `resource.py`: lists that are declared;
  `reader.py`: `read(View, row)`; `words.py` has the words of types and statuses.
- `frame/`: around every page. `session.py`: `SessionState` (email, org_id, role, can_operate, can_admin, link), `may(verb)` for
  buttons by path, and the mixin `AppState` with `await self._rpc(name, args)` and `await self._select(table, query)`; an AppError that
  leaves a handler becomes a toast (`say_error`).
  `layout.py`: `page(*children, title=, active=, crumbs=, dialogs=)`, `head(...)`. Sidebar, palette,
  release notes, connection mark, 404.
- `live/`: `page.py` has the mixin `LivePage`, for pages that are shown again when something changes; `fan_out.py` shows
  the tabs what changed; `members.py` ends the views of people who are no longer members.
- The features, each with its pages, states, view models, components and HTTP routes (`page.py`, `state/`, `view/`,
  `components/`, `routes.py`): `jobs/` (its log in `jobs/log/`) is below `triggers/` (schedules, sets, notifications),
  `access/` and `variables/`, these are below `modules/` and `runners/`, and those below `settings/`, `events/`, `figures/`, `sign_in/`.
  `view/` and `routes.py` import no Reflex.
- `guard/` judges every event before its handler runs. `app.py` puts all of it together; each page module has
  `ROUTES: tuple[Route, ...]`, named in `app.app.PAGES`.

The rules of style are in assets/css/, a file per room; the scripts of the pages are in assets/.

Rules that keep it safe
-----------------------
Every public method of a state is an address that anybody can call with anything. So: helpers
start with an underscore; each handler is an `@rx.event` with a hint on every argument (the
guard refuses calls whose arguments do not fit, and everything from people who are not signed
in); what a person may do is decided by the database, never by a hidden button; nothing secret
is a state's var; text from users and logs is only ever a text node, and `rx.markdown` has
`use_raw=False`.
"""
