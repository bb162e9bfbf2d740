#!/bin/sh
# Writes .venv/bin/tidemark, the command line of runtime/client. Called by setup.sh once .venv is there.
set -eu
cd "$(dirname "$0")/.."

cat > .venv/bin/tidemark <<'LAUNCHER'
#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python" -m runtime.client "$@"
LAUNCHER
chmod 755 .venv/bin/tidemark
