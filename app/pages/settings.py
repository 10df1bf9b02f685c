"""The settings: one page per entry."""

from app.components.settings.accounts import accounts
from app.components.settings.identities import identities
from app.components.settings.members import members
from app.components.settings.records import audit, organisation, releases
from app.pages import Route
from app.states.settings_accounts import AccountsState
from app.states.settings_audit import AuditState
from app.states.settings_identities import IdentitiesState
from app.states.settings_members import MembersState
from app.states.settings_organisation import OrganisationState
from app.states.settings_releases import ReleasesState

HOME = "/dashboard/settings"

ROUTES = (
    Route(HOME, "Settings", members, MembersState.load),
    Route(f"{HOME}/members", "Members", members, MembersState.load),
    Route(f"{HOME}/cloud-identities", "Cloud identities", identities, IdentitiesState.load),
    Route(f"{HOME}/service-accounts", "Service accounts", accounts, AccountsState.load),
    Route(f"{HOME}/releases", "Releases", releases, ReleasesState.load),
    Route(f"{HOME}/audit", "Audit log", audit, AuditState.load),
    Route(f"{HOME}/organisation", "Organisation", organisation, OrganisationState.load),
)
