from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from backend.accounts import services
from backend.accounts.models import ApiToken, LoginLink
from backend.accounts.roles import Role, role_of, set_role
from backend.config.environment import EnvironmentProblem

pytestmark = pytest.mark.django_db


def test_ensure_admin_makes_one_admin_whose_token_logs_in() -> None:
    admin = services.ensure_admin("the first token of the administrator")
    assert services.ensure_admin("the first token of the administrator") == admin
    assert User.objects.count() == 1
    assert role_of(admin) is Role.ADMIN
    assert services.user_of_token("the first token of the administrator") == admin
    assert not admin.has_usable_password()


def test_a_new_admin_token_replaces_the_old_one() -> None:
    admin = services.ensure_admin("the first token of the administrator")
    child = services.create_token(admin, "child", parent=ApiToken.objects.get())
    assert services.user_of_token(child) == admin
    services.ensure_admin("the second token of the administrator")
    assert services.user_of_token("the first token of the administrator") is None
    assert services.user_of_token(child) is None
    assert services.user_of_token("the second token of the administrator") == admin


@pytest.mark.parametrize("token", ["", "a", "x" * 31])
def test_an_admin_token_that_can_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(EnvironmentProblem, match=r"TIDEMARK_ADMIN_TOKEN .* 32"):
        services.ensure_admin(token)
    assert not User.objects.exists()


def test_secrets_are_stored_as_digests_only(alice: User) -> None:
    token = services.create_token(alice, "laptop")
    path = services.create_login_link(alice)
    rows = [*ApiToken.objects.values(), *LoginLink.objects.values()]
    assert token not in str(rows)
    assert path.removeprefix("/login/") not in str(rows)


def test_a_token_ends_with_its_time_and_with_its_user(alice: User) -> None:
    assert services.user_of_token(services.create_token(alice, "over", life_ms=-1)) is None
    token = services.create_token(alice, "laptop", life_ms=60_000)
    assert services.user_of_token(token) == alice
    alice.is_active = False
    alice.save()
    assert services.user_of_token(token) is None


def test_the_use_of_a_token_is_noted_once_a_minute(alice: User) -> None:
    token = services.create_token(alice, "laptop")
    services.user_of_token(token)
    first = ApiToken.objects.get(name="laptop").last_used
    assert first is not None
    services.user_of_token(token)
    assert ApiToken.objects.get(name="laptop").last_used == first
    ApiToken.objects.update(last_used=first - services.LAST_USED_STEP_MS - 1)
    services.user_of_token(token)
    assert (ApiToken.objects.get(name="laptop").last_used or 0) >= first


def test_a_login_link_works_once(alice: User) -> None:
    secret = services.create_login_link(alice).removeprefix("/login/")
    assert services.use_login_link(secret) == alice
    assert services.use_login_link(secret) is None


def test_a_login_link_that_is_over_does_not_work_and_is_swept(alice: User) -> None:
    secret = services.create_login_link(alice).removeprefix("/login/")
    LoginLink.objects.update(expires_at=services.now_ms() - 1)
    assert services.use_login_link(secret) is None
    services.create_login_link(alice)
    assert LoginLink.objects.count() == 1


def test_the_highest_group_is_the_role(alice: User, victor: User) -> None:
    assert role_of(alice) is Role.DEVELOPER
    assert role_of(victor) is Role.VIEWER
    set_role(victor, Role.ADMIN)
    assert role_of(victor) is Role.ADMIN
    set_role(victor, Role.OPERATOR)
    assert role_of(victor) is Role.OPERATOR
