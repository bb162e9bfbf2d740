"""Django settings of all processes (web, jobmanager, taskmanager). Whatever differs by deployment is an environment
variable.

Closed by default: every route needs a login unless its view says otherwise; hosts are listed, never "*".
"""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from backend.config import environment, log_format

BASE_DIR = Path(__file__).resolve().parent.parent.parent
TIDEMARK_HOME = environment.home()

SECRET_KEY = environment.secret_key()
SECRET_KEY_FALLBACKS = environment.former_secret_keys()
#: of commands, events, slots, snapshots and secrets of jobs; the first one signs, all of them verify
TIDEMARK_CLUSTER_KEYS = environment.cluster_keys([SECRET_KEY, *SECRET_KEY_FALLBACKS])
DEBUG = False
ALLOWED_HOSTS = environment.names("TIDEMARK_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
if any("*" in host for host in ALLOWED_HOSTS):
    raise ImproperlyConfigured("TIDEMARK_ALLOWED_HOSTS must list the host names that the page is reached by, without *")
CSRF_TRUSTED_ORIGINS = environment.names("TIDEMARK_TRUSTED_ORIGINS")
#: behind TLS: cookies are sent over https only
HTTPS = environment.is_on("TIDEMARK_HTTPS", default=False)

INSTALLED_APPS = [
    # before the admin, whose templates it replaces
    "backend.administration",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "channels",
    "backend.audit",
    "backend.accounts",
    "backend.cluster",
    "backend.dispatcher",
    "backend.live",
    "backend.pipelines",
    "backend.inbox",
    "backend.supervisor",
]
MIDDLEWARE = [
    "backend.config.log_format.RequestId",
    "django.middleware.security.SecurityMiddleware",
    "backend.audit.middleware.AuditTrail",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "backend.config.urls"
ASGI_APPLICATION = "backend.config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
#: what the admin says after a redirect; a cookie would show it to whoever reads cookies
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
APPEND_SLASH = False

DATABASES = {"default": environment.database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [{"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"}]

REDIS_URL = environment.redis_url()
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        # carries hints only: consumers read the documents again even if one is dropped over capacity
        "CONFIG": {
            # No socket timeout (redis-py's default is 5 s): the layer waits up to 5 s for a message, and a read that
            # times out earlier would end every quiet WebSocket. Before Python 3.12, redis-py's timeouts can also
            # swallow a cancellation, which leaks a reader for every WebSocket that is closed early.
            "hosts": [
                {"address": REDIS_URL, "socket_timeout": None, "socket_connect_timeout": 5, "socket_keepalive": True}
            ],
            "prefix": f"{environment.redis_prefix()}:channels",
            "expiry": 10,
            "group_expiry": 3600,
        },
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "backend.accounts.authentication.BearerAuthentication",
        "backend.accounts.authentication.CookieAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}

#: what a proxy has before the paths of this server: Django prepends it to its own links
TIDEMARK_BASE_PATH = environment.base_path()
FORCE_SCRIPT_NAME = TIDEMARK_BASE_PATH or None
#: browsers send the cookies of / to /a, too, and of two with one name either may be read: each has a name of its own
_COOKIES_END = TIDEMARK_BASE_PATH.replace("/", "-")
#: with a prefix, browsers take it over https only; with __Host-, which goes with the path / alone, from this very host
#: only, and no other host of the domain can set it
_COOKIES_BEGIN = "" if not HTTPS else "__Secure-" if TIDEMARK_BASE_PATH else "__Host-"
SESSION_COOKIE_NAME = f"{_COOKIES_BEGIN}tidemark-session{_COOKIES_END}"
SESSION_COOKIE_PATH = f"{TIDEMARK_BASE_PATH}/"
SESSION_COOKIE_AGE = 7 * 24 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_NAME = f"csrftoken{_COOKIES_END}"
CSRF_COOKIE_PATH = SESSION_COOKIE_PATH
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = HTTPS
#: browsers that have once come over https come no other way for a year
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None

#: whether programs are taken and run; what runs goes on
TIDEMARK_SUBMIT = environment.is_on("TIDEMARK_SUBMIT", default=True)
#: file of the sha256 of the only programs that are taken; empty: all are
TIDEMARK_ALLOWED_PROGRAMS = environment.allowed_programs()
#: limits of each user, over all web processes; 0: none
TIDEMARK_SUBMISSIONS_PER_MINUTE = environment.submissions_per_minute()
TIDEMARK_SAVEPOINTS_PER_MINUTE = environment.savepoints_per_minute()
TIDEMARK_JOBS_PER_USER = environment.jobs_per_user()
TIDEMARK_SOCKETS_PER_USER = environment.sockets_per_user()
#: whether jobs in micro-batches are taken
TIDEMARK_MICRO_BATCHES = environment.is_on("TIDEMARK_MICRO_BATCHES", default=True)
#: whether only owners and administrators act on jobs, savepoints, programs and pipelines
TIDEMARK_OWNERS_ONLY = environment.is_on("TIDEMARK_OWNERS_ONLY", default=False)
#: what the programs of a user, and of an administrator, may take in the storage; 0: no limit
TIDEMARK_QUOTA_MIB = environment.quota_mib()
TIDEMARK_QUOTA_PROGRAMS = environment.quota_programs()
TIDEMARK_ENVIRONMENTS_MIB = environment.environments_mib()
TIDEMARK_ADMIN_QUOTA_MIB = environment.admin_quota_mib()
TIDEMARK_ADMIN_QUOTA_PROGRAMS = environment.admin_quota_programs()
#: limit of one program; uploads are streamed to disk
TIDEMARK_MAX_UPLOAD_BYTES = 256 << 20
FILE_UPLOAD_TEMP_DIR = None
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 << 20

#: empty: TIDEMARK_HOME
TIDEMARK_STORAGE_DIR = environment.storage_directory()
#: empty: `checkpoints` and `savepoints` in the storage directory
TIDEMARK_CHECKPOINT_DIR = environment.checkpoint_directory()
TIDEMARK_SAVEPOINT_DIR = environment.savepoint_directory()
TIDEMARK_STORAGE_ROOTS = environment.storage_roots()
#: whether snapshots are restored that no key of this cluster has signed
TIDEMARK_FOREIGN_SNAPSHOTS = environment.is_on("TIDEMARK_FOREIGN_SNAPSHOTS", default=True)
#: number of a job's newest attempts whose logs are kept
TIDEMARK_KEPT_LOGS = environment.kept_logs()
#: MiB that the logs of a job may have; 0: any number
TIDEMARK_JOB_LOGS_MIB = environment.job_logs_mib()
#: number of jobs that have ended whose rows are kept, and of such jobs with snapshots
TIDEMARK_KEPT_JOBS = environment.kept_jobs()
#: keeps a process with the engine ready for the next preview, some 160 MiB, while somebody edits pipelines
TIDEMARK_WARM_PREVIEWS = environment.is_on("TIDEMARK_WARM_PREVIEWS", default=True)

#: what programs may see of this machine while they are planned
TIDEMARK_CONFINEMENT = environment.confinement()
#: the same while they are previewed or tested
TIDEMARK_PREVIEW_CONFINEMENT = environment.preview_confinement()
#: addresses besides the public ones that connections may lead to when they are tested or described
TIDEMARK_OUTSIDE_ADDRESSES = environment.names("TIDEMARK_OUTSIDE_ADDRESSES")

#: what the leading jobmanager polls for apps above the cluster's: see backend.cluster.further_work
TIDEMARK_LEADER_WORK = [
    "backend.pipelines.led_deployments.LedDeployments",
    "backend.pipelines.deployment_retention.DeploymentRetention",
    "backend.accounts.led_expiry.LedExpiry",
    "backend.dispatcher.led_environments.LedEnvironments",
    "backend.dispatcher.led_switches.LedSwitches",
    "backend.dispatcher.switch_retention.SwitchRetention",
]
#: which events of requests without a login are written
TIDEMARK_ANONYMOUS_EVENTS = "backend.accounts.anonymous_events.listing"
#: who needs snapshots in apps above the cluster's: see backend.cluster.snapshot_users.SnapshotKeeper
TIDEMARK_SNAPSHOT_KEEPERS = [
    "backend.pipelines.deployments.deployments_that_keep",
    "backend.dispatcher.switches.switches_that_keep",
]
#: which apps above the Dispatcher's keep it from switching the execution of a job: see backend.dispatcher.switches
TIDEMARK_SWITCH_OBSTACLES = ["backend.pipelines.deployments.switch_obstacle"]

FRONTEND_DIR = BASE_DIR / "frontend" / "dist"
STATIC_URL = f"{TIDEMARK_BASE_PATH}/static/"
WHITENOISE_AUTOREFRESH = False

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": log_format.LINE_FORMAT},
        "json": {"()": "backend.config.log_format.JsonFormatter"},
    },
    "filters": {"redacting": {"()": "backend.audit.redaction.RedactingFilter"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": environment.log_format(), "filters": ["redacting"]}
    },
    # one line per received and finished command is noise
    "loggers": {
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "py4j": {"level": "WARNING"},
    },
    "root": {"handlers": ["stderr"], "level": os.environ.get("TIDEMARK_LOG_LEVEL", "INFO")},
}
