"""The WebSocket application: same origin and logged-in users only, with so many connections each."""

from __future__ import annotations

from typing import Any, cast

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.urls import path

from backend.live.authentication import LiveAuthentication
from backend.live.consumers import LiveConsumer
from backend.live.origin import SameOrigin
from backend.live.socket_limit import SocketLimit

# Channels routes with Django's `path`, which is typed for views only
live_route: Any = path("ws/live", cast("Any", LiveConsumer.as_asgi()))
websocket_application = SameOrigin(AuthMiddlewareStack(LiveAuthentication(SocketLimit(URLRouter([live_route])))))
