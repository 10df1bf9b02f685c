"""The settings: one page per entry."""

import reflex as rx

from app.frame.layout import Route
from app.settings.components.account import account
from app.settings.components.audit import audit
from app.settings.components.cloud_identities import identities
from app.settings.components.job_identities import job_identities
from app.settings.components.members import members
from app.settings.components.organisation import organisation
from app.settings.components.policies import policies
from app.settings.components.roles import roles
from app.settings.components.service_accounts import accounts
from app.settings.components.settings_page import HOME, settings_page
from app.settings.components.sign_in import sign_in
from app.settings.state.account import AccountState
from app.settings.state.audit import AuditState
from app.settings.state.cloud_identities import IdentitiesState
from app.settings.state.job_identities import JobIdentitiesState
from app.settings.state.members import MembersState
from app.settings.state.organisation import OrganisationState
from app.settings.state.policies import PoliciesState
from app.settings.state.roles import RolesState
from app.settings.state.service_accounts import AccountsState
from app.settings.state.sign_in import SignInState
from app.triggers.components.git import connections_panel, git_dialogs
from app.triggers.components.git_deliveries import deliveries_panel
from app.triggers.components.git_logins import login_dialogs, logins_panel
from app.triggers.components.notifications import notification_dialogs, notification_panels
from app.triggers.state.git import GitState
from app.triggers.state.notifications import NotificationsState


def git() -> rx.Component:
    return settings_page(
        "git", connections_panel(), deliveries_panel(), logins_panel(), dialogs=[*git_dialogs(), *login_dialogs()]
    )


def notifications() -> rx.Component:
    return settings_page("notifications", *notification_panels(), dialogs=notification_dialogs())


ROUTES = (
    Route("/dashboard/account", "Account", account, AccountState.load),
    Route(HOME, "Settings", organisation, OrganisationState.load),
    Route(f"{HOME}/members", "Members", members, MembersState.load),
    Route(f"{HOME}/roles", "Roles", roles, RolesState.load),
    Route(f"{HOME}/sign-in", "Sign-in", sign_in, SignInState.load),
    Route(f"{HOME}/policies", "Policies", policies, PoliciesState.load),
    Route(f"{HOME}/job-identities", "Job identities", job_identities, JobIdentitiesState.load),
    Route(f"{HOME}/cloud-identities", "Cloud identities", identities, IdentitiesState.load),
    Route(f"{HOME}/service-accounts", "Service accounts", accounts, AccountsState.load),
    Route(f"{HOME}/git", "Git", git, GitState.load),
    Route(f"{HOME}/notifications", "Notifications", notifications, NotificationsState.load),
    Route(f"{HOME}/audit", "Audit log", audit, AuditState.load),
    Route(f"{HOME}/organisation", "General", organisation, OrganisationState.load),
)
