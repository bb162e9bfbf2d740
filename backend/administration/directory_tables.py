"""Users, roles and API tokens in the admin: changed by the functions behind /api/v1/users and /api/v1/tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern

from backend.accounts import directory
from backend.accounts.models import ApiToken
from backend.accounts.roles import Role, own_role_of
from backend.administration.tables import Table, moment, shown
from backend.audit import trail

if TYPE_CHECKING:
    ModelForm = forms.ModelForm[Any]
else:
    ModelForm = forms.ModelForm
ROLES = [(role.group_name, role.group_name) for role in Role]


class DirectoryForm(ModelForm):
    """A form that is valid once its change is made: what the directory refuses is said at the form.

    Attributes:
        request: of the page, set by the table.
    """

    request: ClassVar[HttpRequest]

    def clean(self) -> dict[str, Any]:
        given = dict(super().clean() or self.cleaned_data)
        if not self.errors:
            try:
                self.change(given)
            except directory.DirectoryError as error:
                self.add_error(None, str(error))
        return given

    def _post_clean(self) -> None:
        """Do nothing: the directory has checked what it made."""

    def change(self, given: dict[str, Any]) -> None:
        """Make the change, and set `instance` to the row.

        Raises:
            DirectoryError: it is not made.
        """
        raise NotImplementedError


class NewUser(DirectoryForm):
    name = forms.CharField(max_length=100, help_text="Letters, digits, and @ . + _ -")
    role = forms.ChoiceField(choices=ROLES)
    password = forms.CharField(
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Empty: the user logs in with tokens only.",
    )

    class Meta:
        model = User
        fields: ClassVar[list[str]] = []

    def change(self, given: dict[str, Any]) -> None:
        trail.note(self.request, name=given["name"], role=given["role"])
        self.instance = directory.create_user(given["name"], given["role"], given["password"])


class ChangedUser(DirectoryForm):
    """Changes of a user that were made on the page only: the rest may have been changed since it was opened."""

    role = forms.ChoiceField(choices=ROLES, show_hidden_initial=True)
    is_active = forms.BooleanField(
        required=False, label="Active", help_text="Others cannot log in; tokens end, too.", show_hidden_initial=True
    )
    password = forms.CharField(
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        label="New password",
        help_text="Empty: the password stays as it is.",
    )

    class Meta:
        model = User
        fields: ClassVar[list[str]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["role"].initial = own_role_of(self.instance).group_name
        self.fields["is_active"].initial = self.instance.is_active

    def change(self, given: dict[str, Any]) -> None:
        self.instance, changed = directory.change_user(
            self.instance.get_username(),
            role=given["role"] if "role" in self.changed_data else None,
            is_active=given["is_active"] if "is_active" in self.changed_data else None,
            password=given["password"] or None,
        )
        trail.note(self.request, name=self.instance.get_username(), **changed)


class NewToken(DirectoryForm):
    name = forms.CharField(max_length=100, help_text="What it is for.")
    user = forms.ModelChoiceField(User.objects.filter(is_active=True).order_by("username"))
    scope = forms.ChoiceField(
        choices=[("", "the user's own role"), *ROLES], required=False, help_text="The highest role that it gives."
    )
    days = forms.IntegerField(
        required=False, initial=90, min_value=1, max_value=directory.MAX_DAYS, help_text="Empty: it never expires."
    )

    class Meta:
        model = ApiToken
        fields: ClassVar[list[str]] = []

    def change(self, given: dict[str, Any]) -> None:
        owner = given["user"].get_username()
        trail.note(self.request, name=given["name"], scope=given["scope"], days=given["days"], user=owner)
        maker: Any = self.request.user
        self.text, self.instance = directory.make_token(
            maker, given["name"], owner=owner, scope=given["scope"], days=given["days"]
        )


class DirectoryTable(Table):
    """A table of the directory: rows are added, and deleted on a page that names what goes with them."""

    new_form: ClassVar[type[DirectoryForm]]

    def get_urls(self) -> list[URLPattern]:
        return [
            *super().get_urls(),
            self.route("add/", self.add_view, "add"),
            self.route("<str:object_id>/delete/", self.delete_view, "delete"),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return True

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        form = self.form_for(obj)
        return [*(() if obj is None else self.facts), *(() if form is None else form.base_fields)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else self.facts

    def form_for(self, obj: Any) -> type[DirectoryForm] | None:
        """Return the form of a new row, or of one that is there; None: that is only looked at."""
        return self.new_form if obj is None else None

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = self.form_for(obj)
        if form is None:
            return super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"request": request})

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        response = super().render_change_form(request, context, *args, **kwargs)
        if request.method == "POST":
            # the form is shown again: its change was refused
            response.status_code = 400
        return response

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Do nothing: the form has."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Do nothing: the form has."""

    def construct_change_message(self, *args: Any, **kwargs: Any) -> Any:
        return []

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        if request.method == "POST" and not request.POST:
            return HttpResponse("Nothing was confirmed.\n", status=400, content_type="text/plain; charset=utf-8")
        try:
            return super().delete_view(request, object_id, extra_context)
        except directory.DirectoryError as error:
            context = {
                **self.admin_site.each_context(request),
                "title": "Not deleted",
                "problem": str(error),
                "back": "../change/",
                "opts": self.model._meta,
            }
            return TemplateResponse(request, "administration/confirmation.html", context, status=409)


class Users(DirectoryTable):
    new_form = NewUser
    list_display = ("username", "role", "is_active", "has_password", "last_login", "valid_tokens")
    list_filter = ("is_active",)
    search_fields = ("username",)
    ordering = ("username",)
    facts = ("username", "has_password", "last_login", "date_joined", "valid_tokens")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    def form_for(self, obj: Any) -> type[DirectoryForm] | None:
        return NewUser if obj is None else ChangedUser

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        trail.note(request, name=obj.get_username())
        directory.delete_user(obj.get_username())

    @shown("role")
    def role(self, user: Any) -> str:
        return own_role_of(user).group_name

    @admin.display(description="password", boolean=True)
    def has_password(self, user: Any) -> bool:
        return bool(user.has_usable_password())

    @shown("valid tokens")
    def valid_tokens(self, user: Any) -> int:
        return directory.user_entry(user)["tokens"]


class Tokens(DirectoryTable):
    new_form = NewToken
    list_display = ("name", "user", "gives", "created", "expires", "used")
    list_select_related = ("user",)
    search_fields = ("name", "user__username")
    ordering = ("-created_at",)
    facts = ("name", "user", "gives", "created", "expires", "used")

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        trail.note(request, name=obj.name, user=obj.user.get_username())
        asker: Any = request.user
        directory.revoke_token(asker, obj.pk)

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        token = super().save_form(request, form, change)
        # for the answer only: never stored, and not in a message, which would be
        token.text = form.text
        return token

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        context = {**self.admin_site.each_context(request), "title": "API token", "token": obj, "opts": self.opts}
        return TemplateResponse(request, "administration/token.html", context, status=201)

    @shown("gives at most", "scope")
    def gives(self, token: Any) -> str:
        return token.scope or "the user's own role"

    @shown("created", "created_at")
    def created(self, token: Any) -> str | None:
        return moment(token.created_at)

    @shown("expires", "expires_at")
    def expires(self, token: Any) -> str:
        return moment(token.expires_at) or "never"

    @shown("last used", "last_used")
    def used(self, token: Any) -> str:
        return moment(token.last_used) or "never"


def register(site: admin.AdminSite) -> None:
    """Add the tables to the site."""
    site.register(User, Users)
    site.register(ApiToken, Tokens)
