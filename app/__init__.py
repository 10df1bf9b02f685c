"""The dashboard: Reflex; the browser's only server.

How it is built
---------------
One folder per feature, each with its pages, their states, what they show from rows alone, and
their parts: `runners/`, `jobs/`, `modules/`, `triggers/` (schedules, sets, notifications), `figures/`,
`events/`, `faults/`, `settings/`, `sign_in/` (`page.py`, `state/`, `view/`, `components/`).
A feature imports no other; what several need is below:

- `live/`: `page.py` has the mixin `LivePage`, for pages that are shown again when something changes;
  `fan_out.py` shows the tabs what changed; `members.py` ends the views of those who may look no longer.
- `shared/`: `layout.py`: `page(*children, title=, active=, crumbs=, dialogs=)`, `head(...)`, `panel(...)`.
  `elements.py`: `ago(at)`, `since(at, until)`, `date(at)`, `clock_time(at)` tick in the browser.
  `badges.py`: `job_badge(status)`, `runner_badge(status)`, `tag(text)`. `feedback.py`: `empty`, `failed`,
  `skeleton_rows`. `forms.py`, `copy.py`. `session.py`: `SessionState` (email, org_id,
  role, can_operate, can_admin, link) and the mixin `AppState` with `await self._rpc(name, args)` and
  `await self._select(table, query)`; `say_error(error)` is the toast for an AppError.
  `shared/job/` and `shared/runner/`: a job, a runner, wherever they are shown.
- `http/`: what goes without the websocket: signing in, logs, exports, downloads, headers, origins.
- `project/` knows the project and imports no Reflex. `client.py` is the only module that
  talks HTTP, `realtime_client.py` the only one that talks Realtime. `authorized_client.py` calls the project in a
  session's name (`authorized.rpc(session, name, args)`, `authorized.select(session, table, Query(...))`)
  and keeps its token fresh. `live_queries.py` are the questions that pages ask (`list_runners` with a filter),
  answered once for all tabs; `asker.py` asks them, `store.py` has the answers and what changed lately,
  `feed.py` keeps it true, `hub.py` knows which tab looks at what. `runtime.runtime()`
  reaches them from a state. Errors are named after the reaction: `SignedOut`, `Unreachable`,
  `Refused` (has the database's message and hint), `NotThere`.
- `guard/` judges every event before its handler runs. `app.py` puts all of it together;
  each page module has `ROUTES: tuple[Route, ...]`, named in `app.app.PAGES`.

Rules that keep it safe
-----------------------
Every public method of a state is an address that anybody can call with anything. So: helpers
start with an underscore; each handler is an `@rx.event` with a hint on every argument (the
guard refuses calls whose arguments do not fit, and everything from people who are not signed
in); what a person may do is decided by the database, never by a hidden button; nothing secret
is a state's var; text from users and logs is only ever a text node, and `rx.markdown` has
`use_raw=False`.
"""
